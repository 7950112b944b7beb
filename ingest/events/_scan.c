/* The event scanner: one pass over the text of an event array, straight into columns.
 *
 * plain.py says what it does; this does the same to the last bit, a hundred times faster, without the GIL.
 *
 * How it stays inside its memory: the PAD bytes behind the data are set to NUL, which no JSON token contains, so
 * every loop ends there without looking at the end of the data; lookahead and wide loads reach at most 32 bytes.
 * Whatever the strict parser refuses is skimmed by quotes and brackets alone, and counted as lost where it ends. Before
 * that, reading goes on at the next place where an event stands: text may be missing that the brackets are counted by.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WIDE 1
#define WIDER 1 /* and twice as wide where the processor can */
#elif defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define WIDE 1
#elif defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#include <arm_neon.h>
#define WIDE 1
#endif

enum { PAD = 64, MAX_DEPTH = 64, MAX_EVENT = 4 << 20 };
enum { NEAR = 64 << 10, LOOKAHEAD = 32 };       /* as in model.py */
enum { KEY_BYTES = 32, MOST_KEYS = 512 };       /* of a key that is remembered, with its quotes; how many are */
enum { NO_KEY, FIRST_KEY, FIRST_ARGUMENT, KEYS }; /* what stands before the first key of an event, of its args */
enum { MORE, END, DAMAGED };          /* what feed met */
enum { OPEN, COMMA, ELEMENT };        /* what the next element comes after */
enum { ESCAPED = 1, HALF_PAIR = 2 };  /* a string has escapes; one of them is half a surrogate pair */

enum { PH, TS, DUR, NAME, CAT, PID, TID, ID, CORE, ARGS = CORE, IGNORED, EXTRA };
enum { LABELS = TID - NAME + 1, RECENT = 4, SHORT = 16 };

/* Why an element is lost. */
enum {
    NONE, SYNTAX, BAD_UTF8, CONTROL, BAD_ESCAPE, BAD_NUMBER, OVERFLOWS, TOO_DEEP, TOO_LARGE, NOT_OBJECT,
    EMPTY, NO_COMMA, WRONG_TYPE, OUT_OF_RANGE = WRONG_TYPE + CORE, REASONS = OUT_OF_RANGE + 2
};
static const char *const REASON[REASONS] = {
    "", "syntax", "bad utf-8", "control character", "bad escape", "bad number", "number overflow", "too deep",
    "too large", "not an object", "empty element", "missing comma", "wrong type: ph", "wrong type: ts",
    "wrong type: dur", "wrong type: name", "wrong type: cat", "wrong type: pid", "wrong type: tid",
    "wrong type: id", "out of range: ts", "out of range: dur",
};
enum { THREAD = REASONS };            /* what is lost is no element: the text cannot be followed */
enum { NO, YES, PERHAPS };            /* whether an event stands somewhere; that needs more data */

typedef const uint8_t *Text;

typedef struct { uint8_t *at; size_t size, room; } Bytes;

/* A value as written. kind: its first character, '0' for every number, 0 if there is none.
 * simple: a number of at most 18 digits without an exponent, which are `digits`, `places` of them behind the point. */
typedef struct { Text at; uint64_t digits; uint32_t size; uint8_t kind, flags, simple, places; } Value;

/* A member of args, or of the event itself if it is none of the known keys (extra). */
typedef struct { Text key; uint32_t size, hash; int32_t known; Value value; uint8_t extra, escaped, done; } Member;

/* A key met before. Events of one kind name theirs in one order: what followed a key the last times is tried first.
 * The list of keys only grows, so one that is not in it never was. */
typedef struct {
    uint64_t quoted[KEY_BYTES / 8], last_bits; /* as written, and which bits of the last word are of it */
    uint32_t words, size, hash;
    int32_t next[2];
    int32_t column, core;
    uint32_t round[2], member[2]; /* where it stands in this event: in args, or as an extra member */
} Key;

typedef struct { uint32_t round, index; } MemberSlot; /* filled if round is the table's */

typedef struct { uint32_t hash, offset, size; int32_t code; } Known; /* empty if code < 0 */

typedef struct { uint32_t hash; int32_t place; } Word; /* empty if place < 0 */

/* A short text that was coded lately: most events share category, process and thread with one of the last. */
typedef struct { uint64_t low, high; uint32_t size; int32_t code; } Recent; /* empty if code < 0 */

/* words: the distinct texts of the batch, if the column is of texts */
typedef struct {
    Bytes key, rows, values, text, text_offsets;
    Word *words;
    size_t word_mask, n_words;
    uint32_t hash;
    int32_t member;
    char kind;
} Column;

typedef struct {
    PyObject_HEAD
    /* settings */
    Column *columns;
    int32_t *column_table; /* open addressing by hash; -1 is empty */
    size_t n_columns, column_mask, present_words;
    uint64_t *present; /* columns that the event has, a bit each */
    Key *known_keys;
    int32_t *key_table; /* as column_table */
    int32_t n_keys;
    int flow_names;
    uint64_t seed;
    size_t table_limit;
    /* where the array stands */
    int after, busy, no_memory, last;
    int64_t pending;
    int skim_mode, skim_depth;
    int lost, seeks, torn; /* why what is passed now is lost; whether an event may stand in it; whether it is damage */
    /* the event being read */
    Value core[CORE];
    Member *members;
    size_t n_members, room_members;
    int64_t args_member;
    MemberSlot *slots;
    size_t slot_mask;
    uint32_t round;
    Bytes keys, scratch;
    int reason;
    Text limit, lost_at, base;
    PyThreadState *thread;
    /* texts already coded */
    Known *known;
    size_t known_mask, n_known, held;
    Bytes texts;
    Recent recent[LABELS][RECENT];
    uint8_t next_recent[LABELS];
    int64_t next_code, first_code;
    size_t first_text;
    Bytes text_offsets;
    /* the batch */
    size_t elements, rows, room_rows, gaps;
    int64_t gap_bytes, gap_at;
    uint8_t *ph;
    int64_t *ts, *dur, *id;
    int32_t *labels[LABELS];
    Bytes rest_rows, rest_offsets, rest;
    int64_t bad[REASONS];
} Scanner;

/* ---- memory ---- */

/* Room for `more` bytes and a little to read beyond them. */
static int reserve(Scanner *s, Bytes *b, size_t more)
{
    size_t need = b->size + more + 16;
    if (need <= b->room) return 1;
    size_t room = need + need / 2 + 64;
    uint8_t *at = realloc(b->at, room);
    if (!at) { s->no_memory = 1; return 0; }
    b->at = at;
    b->room = room;
    return 1;
}

static void append(Scanner *s, Bytes *b, const void *what, size_t size)
{
    if (!reserve(s, b, size)) return;
    memcpy(b->at + b->size, what, size);
    b->size += size;
}

static inline void append4(Scanner *s, Bytes *b, int32_t what)
{
    if (b->size + 20 > b->room && !reserve(s, b, 4)) return;
    memcpy(b->at + b->size, &what, 4);
    b->size += 4;
}

static inline void append8(Scanner *s, Bytes *b, const void *what)
{
    if (b->size + 24 > b->room && !reserve(s, b, 8)) return;
    memcpy(b->at + b->size, what, 8);
    b->size += 8;
}

static int reserve_row(Scanner *s)
{
    if (s->rows < s->room_rows) return 1;
    size_t room = s->room_rows ? s->room_rows * 2 : 1024;
    void **columns[] = {(void **)&s->ts, (void **)&s->dur, (void **)&s->id, (void **)&s->ph};
    size_t sizes[] = {8, 8, 8, 1};
    for (int i = 0; i < 4 + LABELS; i++) {
        void **column = i < 4 ? columns[i] : (void **)&s->labels[i - 4];
        void *at = realloc(*column, room * (i < 4 ? sizes[i] : 4));
        if (!at) { s->no_memory = 1; return 0; }
        *column = at;
    }
    s->room_rows = room;
    return 1;
}

/* ---- characters ---- */

static inline int is_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }
static inline uint64_t load64(Text p) { uint64_t v; memcpy(&v, p, 8); return v; }

/* Past what is blank at p: mostly nothing, one space, or a new line and its indent. */
static inline Text blank(Text p)
{
    p += *p == ' ';
    while (*p <= ' ' && is_blank(*p)) {
        p++;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        uint64_t other = load64(p) ^ 0x2020202020202020u;
        p += other ? __builtin_ctzll(other) >> 3 : 8;
#endif
    }
    return p;
}

/* Characters that may not follow a number or a word. */
static inline int is_glued(uint8_t c)
{
    return is_digit(c) || (uint8_t)((c | 0x20) - 'a') < 26 || c == '_' || c == '.' || c == '+' || c == '-';
}

static inline int hex(uint8_t c)
{
    if (is_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline int hex4(Text p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex(p[i]);
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Bytes of the UTF-8 sequence at p, 0 if it is none. */
static inline int utf8_size(Text p)
{
    uint8_t c = p[0], d = p[1];
    if (c < 0xC2 || c > 0xF4 || (d & 0xC0) != 0x80) return 0;
    if (c < 0xE0) return 2;
    if ((p[2] & 0xC0) != 0x80) return 0;
    if (c < 0xF0) return (c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) ? 0 : 3;
    if ((p[3] & 0xC0) != 0x80 || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F)) return 0;
    return 4;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t c)
{
    if (c < 0x80) { *out++ = (uint8_t)c; return out; }
    if (c < 0x800) *out++ = (uint8_t)(0xC0 | c >> 6);
    else {
        if (c < 0x10000) *out++ = (uint8_t)(0xE0 | c >> 12);
        else { *out++ = (uint8_t)(0xF0 | c >> 18); *out++ = (uint8_t)(0x80 | (c >> 12 & 0x3F)); }
        *out++ = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    }
    *out++ = (uint8_t)(0x80 | (c & 0x3F));
    return out;
}

/* The valid \uXXXX at p as a character; half a pair becomes U+FFFD. *size: bytes it takes. */
static uint32_t unescape_u(Text p, int *size)
{
    int unit = hex4(p + 2);
    *size = 6;
    if (unit < 0xD800 || unit > 0xDFFF) return (uint32_t)unit;
    if (unit < 0xDC00 && p[6] == '\\' && p[7] == 'u') {
        int low = hex4(p + 8);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *size = 12;
            return 0x10000 + (((uint32_t)unit - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
        }
    }
    return 0xFFFD;
}

/* ---- numbers ---- */

/* Past the JSON number at p; NULL if there is none. *power: whether it has an exponent. */
static Text number_end(Text p, int *power)
{
    *power = 0;
    if (*p == '-') p++;
    if (*p == '0') p++;
    else if (is_digit(*p)) do p++; while (is_digit(*p));
    else return NULL;
    if (*p == '.') {
        if (!is_digit(*++p)) return NULL;
        do p++; while (is_digit(*p));
    }
    if ((*p | 0x20) == 'e') {
        *power = 1;
        p++;
        if (*p == '+' || *p == '-') p++;
        if (!is_digit(*p)) return NULL;
        do p++; while (is_digit(*p));
    }
    return is_glued(*p) ? NULL : p;
}

/* Past all that clings to a number or a word that begins at p. */
static Text glued_end(Text p)
{
    while (is_glued(*p)) p++;
    return p;
}

/* Past the number at p if it is a simple one, which then is in `value`; else NULL. */
static inline Text simple_end(Text p, Value *value)
{
    p += *p == '-';
    Text first = p, point;
    uint64_t digits = 0;
    while (is_digit(*p)) digits = digits * 10 + (uint64_t)(*p++ - '0');
    if (p == first || (*first == '0' && p > first + 1)) return NULL;
    value->places = 0;
    if (*p == '.') {
        point = ++p;
        while (is_digit(*p)) digits = digits * 10 + (uint64_t)(*p++ - '0');
        if (p == point || p - point > 18) return NULL;
        value->places = (uint8_t)(p - point);
        first++; /* the point is no digit */
    }
    if (p - first > 18 || is_glued(*p)) return NULL;
    value->digits = digits;
    value->simple = 1;
    return p;
}

static const uint64_t POW10[20] = {
    1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u,
    100000000000u, 1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u,
    100000000000000000u, 1000000000000000000u, 10000000000000000000u,
};

/* A number as its first 19 significant digits, a power of ten, and what was cut off. */
typedef struct {
    uint64_t digits;
    int64_t count;    /* significant digits, trailing zeros included; 0 for zero */
    int64_t exponent; /* power of ten of the last of all digits */
    int next, sticky; /* the 20th digit; whether any digit behind it is not 0 */
    int negative;
} Decimal;

static Decimal decimal(Text p, Text end)
{
    Decimal d = {0, 0, 0, 0, 0, 0};
    int64_t fraction = 0, power = 0;
    int in_fraction = 0;
    if (*p == '-') { d.negative = 1; p++; }
    for (; p < end; p++) {
        if (*p == '.') { in_fraction = 1; continue; }
        if (!is_digit(*p)) break;
        int digit = *p - '0';
        fraction += in_fraction;
        if (!d.count && !digit) continue;
        if (d.count < 19) d.digits = d.digits * 10 + (uint64_t)digit;
        else if (d.count == 19) d.next = digit;
        else d.sticky |= digit;
        d.count++;
    }
    if (p < end) {
        int negative = *++p == '-';
        if (!is_digit(*p)) p++;
        for (; p < end; p++)
            if (power < 1000000000) power = power * 10 + (*p - '0');
        if (power > 1000000000) power = 1000000000;
        if (negative) power = -power;
    }
    d.exponent = power - fraction;
    return d;
}

/* Whether no double can hold the number. */
static int overflows(Text p, Text end)
{
    Decimal d = decimal(p, end);
    int64_t top = d.count + d.exponent - 1;
    if (!d.count || top < 308) return 0;
    if (top > 308) return 1;
    uint64_t first = d.digits;
    for (int64_t n = d.count < 19 ? d.count : 19; n < 17; n++) first *= 10;
    for (int64_t n = d.count < 19 ? d.count : 19; n > 17; n--) first /= 10;
    return first > 17976931348623157u;
}

/* The number times 10**places, half to even. 0 if out of range or, when exact, not whole. */
static int scaled(Decimal d, int places, int exact, int64_t *out)
{
    int64_t taken = d.count < 19 ? d.count : 19;
    int64_t size = d.count + d.exponent + places;
    int64_t exponent = size - taken; /* of the last digit in d.digits */
    uint64_t value = 0;
    *out = 0;
    if (!d.count) return 1;
    if (size > 19) return 0;
    if (size < 0) return !exact;
    int tail = d.next || d.sticky, up;
    if (exponent >= 0) {
        value = d.digits * POW10[exponent];
        up = d.next > 5 || (d.next == 5 && (d.sticky || (value & 1)));
    } else {
        uint64_t unit = POW10[-exponent], part = d.digits % unit;
        value = d.digits / unit;
        up = part > unit / 2 || (part == unit / 2 && (tail || (value & 1)));
        tail |= part != 0;
    }
    if (exact && tail) return 0;
    value += (uint64_t)up;
    if (value > INT64_MAX) return 0;
    *out = d.negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

/* The nearest double, if it can be had without big integers. */
static int quick_double(Decimal d, double *out)
{
    int64_t exponent = d.exponent;
    double value;
    if (d.count > 19) return 0;
    if (!d.count) value = 0.0;
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
    else if (d.digits <= 1ull << 53 && exponent >= -19 && exponent <= 19)
        value = exponent < 0 ? (double)d.digits / (double)POW10[-exponent] : (double)d.digits * (double)POW10[exponent];
#ifdef __SIZEOF_INT128__
    else if (d.digits > 1ull << 53 && exponent < 0 && exponent >= -19) {
        int shift = 0, drop = 0;
        uint64_t digits = d.digits, unit = POW10[-exponent];
        while (!(digits >> 63)) { digits <<= 1; shift++; }
        unsigned __int128 quotient = ((unsigned __int128)digits << 64) / unit;
        int sticky = (unsigned __int128)quotient * unit != (unsigned __int128)digits << 64;
        for (; quotient >> 64; quotient >>= 1, drop++) sticky |= (int)(quotient & 1);
        uint64_t power = (uint64_t)(1023 + drop - 64 - shift) << 52; /* of two, as a double */
        double scale;
        memcpy(&scale, &power, 8);
        value = (double)((uint64_t)quotient | (uint64_t)sticky) * scale;
    }
#endif
#endif
    else return 0;
    *out = d.negative ? -value : value;
    return 1;
}

/* ---- hashing and coding of texts ---- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
#else
    a *= b;
    a ^= a >> 29;
    a *= b;
    return a ^ a >> 32;
#endif
}

/* The first bytes of a text, at most 8, the others 0. Reads up to 8 bytes beyond them, never uses those. */
static inline uint64_t first64(Text p, size_t size)
{
    uint64_t v = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy(&v, p, size);
#else
    if (size) v = load64(p) & ~(uint64_t)0 >> (64 - 8 * size);
#endif
    return v;
}

static inline uint32_t hashed(const Scanner *s, Text p, size_t size)
{
    uint64_t h = s->seed ^ size * 0x9E3779B97F4A7C15u, other = h;
    if (size > 32) { /* two at a time, for neither waits for the other */
        for (; size > 16; size -= 16, p += 16) {
            h = mix(h ^ load64(p), 0xA0761D6478BD642Fu);
            other = mix(other ^ load64(p + 8), 0x8EBC6AF09C88C6E3u);
        }
        h ^= other << 1 | other >> 63;
    }
    for (; size > 8; size -= 8, p += 8) h = mix(h ^ load64(p), 0xA0761D6478BD642Fu);
    h = mix(h ^ first64(p, size), 0xE7037ED1A0B428DBu);
    return (uint32_t)(h ^ h >> 32);
}

static int grow_known(Scanner *s)
{
    size_t room = s->known ? (s->known_mask + 1) * 2 : 4096;
    Known *known = malloc(room * sizeof *known);
    if (!known) { s->no_memory = 1; return 0; }
    for (size_t i = 0; i < room; i++) known[i].code = -1;
    for (size_t i = 0; s->known && i <= s->known_mask; i++) {
        if (s->known[i].code < 0) continue;
        size_t at = s->known[i].hash & (room - 1);
        while (known[at].code >= 0) at = (at + 1) & (room - 1);
        known[at] = s->known[i];
    }
    free(s->known);
    s->known = known;
    s->known_mask = room - 1;
    return 1;
}

static int32_t code(Scanner *s, Text p, size_t size)
{
    uint32_t hash = hashed(s, p, size);
    size_t at = hash & s->known_mask;
    for (; s->known[at].code >= 0; at = (at + 1) & s->known_mask) {
        Known *known = &s->known[at];
        if (known->hash == hash && known->size == size && !memcmp(s->texts.at + known->offset, p, size))
            return known->code;
    }
    if (s->next_code == INT32_MAX) { s->no_memory = 1; return -1; }
    Known fresh = {hash, (uint32_t)s->texts.size, (uint32_t)size, (int32_t)s->next_code++};
    s->known[at] = fresh;
    append(s, &s->texts, p, size);
    append4(s, &s->text_offsets, (int32_t)(s->texts.size - s->first_text));
    s->held += size + 48;
    if (++s->n_known * 2 > s->known_mask) grow_known(s);
    return fresh.code;
}

static int grow_words(Scanner *s, Column *c)
{
    size_t room = c->words ? (c->word_mask + 1) * 2 : 256;
    Word *words = malloc(room * sizeof *words);
    if (!words) { s->no_memory = 1; return 0; }
    memset(words, 0xFF, room * sizeof *words);
    for (size_t i = 0; c->words && i <= c->word_mask; i++) {
        if (c->words[i].place < 0) continue;
        size_t at = c->words[i].hash & (room - 1);
        while (words[at].place >= 0) at = (at + 1) & (room - 1);
        words[at] = c->words[i];
    }
    free(c->words);
    c->words = words;
    c->word_mask = room - 1;
    return 1;
}

/* The place of a text among those of the column in this batch. */
static int32_t place_of(Scanner *s, Column *c, Text p, size_t size)
{
    uint32_t hash = hashed(s, p, size);
    size_t at = hash & c->word_mask;
    for (; c->words[at].place >= 0; at = (at + 1) & c->word_mask) {
        int32_t span[2];
        if (c->words[at].hash != hash) continue;
        memcpy(span, c->text_offsets.at + 4 * (size_t)c->words[at].place, sizeof span);
        if ((size_t)(span[1] - span[0]) == size && !memcmp(c->text.at + span[0], p, size)) return c->words[at].place;
    }
    Word fresh = {hash, (int32_t)c->n_words};
    c->words[at] = fresh;
    append(s, &c->text, p, size);
    append4(s, &c->text_offsets, (int32_t)c->text.size);
    if (++c->n_words * 2 > c->word_mask) grow_words(s, c);
    return fresh.place;
}

/* ---- values, strictly ---- */

static Text lost(Scanner *s, Text at, int reason) { s->reason = reason; s->lost_at = at; return NULL; }

static inline int lowest_bit(unsigned mask)
{
#if defined(__GNUC__)
    return __builtin_ctz(mask);
#else
    int at = 0;
    for (; !(mask & 1); mask >>= 1) at++;
    return at;
#endif
}

#ifdef WIDE
/* Where in the 16 bytes at p a string ends or needs a closer look, 16 if nowhere. */
static inline int special_in(Text p)
{
#ifdef __ARM_NEON
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(p));
    uint8x16_t special = vorrq_u8(vceqq_s8(v, vdupq_n_s8('"')), vceqq_s8(v, vdupq_n_s8('\\')));
    special = vorrq_u8(special, vcltq_s8(v, vdupq_n_s8(0x20))); /* signed: also every byte of 0x80 and above */
    uint64_t found = vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(special), 4)), 0);
    return found ? __builtin_ctzll(found) >> 2 : 16;
#else
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    __m128i special = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
    __m128i low = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed: also every byte of 0x80 and above */
    return lowest_bit((unsigned)_mm_movemask_epi8(_mm_or_si128(special, low)) | 1u << 16);
#endif
}
#endif

static inline int lowest_bit64(uint64_t mask)
{
    return (uint32_t)mask ? lowest_bit((uint32_t)mask) : 32 + lowest_bit((uint32_t)(mask >> 32));
}

/* Past the bytes at p that are plain within a string. */
static Text plain_end(Text p)
{
#ifdef WIDE
    for (int at;; p += 16)
        if ((at = special_in(p)) < 16) return p + at;
#else
    while (*p != '"' && *p != '\\' && (uint8_t)(*p - 0x20) < 0x60) p++;
    return p;
#endif
}

#ifdef WIDER
__attribute__((target("avx2"))) static Text plain_end_avx2(Text p)
{
    for (;; p += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)p), quote = _mm256_set1_epi8('"');
        __m256i special = _mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\\')));
        __m256i low = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), v);
        unsigned found = (unsigned)_mm256_movemask_epi8(_mm256_or_si256(special, low));
        if (found) return p + lowest_bit(found);
    }
}
#endif

/* Which of them, chosen when the module is loaded: most strings are short, so it is asked behind the first 16 bytes. */
static Text (*long_plain_end)(Text) = plain_end;

/* Past the string whose opening quote is at p; sets ESCAPED and HALF_PAIR in *flags. NULL with the reason if it is bad. */
static Text string_end(Scanner *s, Text p, uint8_t *flags)
{
    if (*p != '"') return lost(s, p, SYNTAX);
    for (p++;;) {
#ifdef WIDE
        int at = special_in(p);
        p = at < 16 ? p + at : long_plain_end(p + 16);
#else
        p = plain_end(p);
#endif
        if (*p == '"') return p + 1;
        if (*p == '\\') {
            *flags |= ESCAPED;
            if (p[1] == 'u') {
                int size;
                if (hex4(p + 2) < 0) return lost(s, p, BAD_ESCAPE);
                if (unescape_u(p, &size) == 0xFFFD && (hex4(p + 2) & 0xF800) == 0xD800) *flags |= HALF_PAIR;
                p += size;
            } else if (p[1] && strchr("\"\\/bfnrt", p[1])) p += 2;
            else return lost(s, p, BAD_ESCAPE);
        } else {
            int size = utf8_size(p);
            if (*p < 0x20) return lost(s, p, CONTROL);
            if (!size) return lost(s, p, BAD_UTF8);
            p += size;
        }
    }
}

static Text value_end(Scanner *s, Text p, int depth, int any_size, Value *value);

static Text object_end(Scanner *s, Text p, int depth, uint8_t *flags)
{
    if (depth > MAX_DEPTH) return lost(s, p, TOO_DEEP);
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        Value inner;
        if (!(p = string_end(s, p, flags))) return NULL;
        p = blank(p);
        if (*p != ':') return lost(s, p, SYNTAX);
        p = blank(p + 1);
        if (!(p = value_end(s, p, depth, 0, &inner))) return NULL;
        *flags |= inner.flags;
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return lost(s, p, SYNTAX);
        p = blank(p + 1);
    }
}

/* Past the list at p and the lists in it: shapes and strides are most of many files. */
static Text list_end(Scanner *s, Text p, int depth, uint8_t *flags)
{
    int outer = depth - 1;
    for (;; depth++) {
        if (depth > MAX_DEPTH) return lost(s, p, TOO_DEEP);
        p = blank(p + 1);
        if (*p == ']') goto closed;
        for (;;) {
            if (*p == '[') break;
            Text digit = p;
            while (is_digit(*digit)) digit++;
            if (digit > p && (*digit == ',' || *digit == ']') && (*p != '0' || digit == p + 1) && digit - p < 300)
                p = digit;
            else {
                Value inner;
                if (!(p = value_end(s, p, depth, 0, &inner))) return NULL;
                *flags |= inner.flags;
                p = blank(p);
            }
            while (*p == ']') {
        closed:
                p++;
                if (--depth == outer) return p;
                p = blank(p);
            }
            if (*p != ',') return lost(s, p, SYNTAX);
            p = blank(p + 1);
        }
    }
}

static Text word_end(Scanner *s, Text p)
{
    size_t size = !memcmp(p, "true", 4) || !memcmp(p, "null", 4) ? 4 : !memcmp(p, "false", 5) ? 5 : 0;
    if (size && !is_glued(p[size])) return p + size;
    int constant = *p == 'N' || *p == 'I' || *p == 'i' || (*p == 'n' && p[1] != 'u');
    return lost(s, glued_end(p), constant ? BAD_NUMBER : SYNTAX);
}

/* Past the value at p, in a container of that depth. any_size: a number may exceed what a double holds. */
static Text value_end(Scanner *s, Text p, int depth, int any_size, Value *value)
{
    Text start = p;
    uint8_t first = *p;
    value->flags = value->simple = 0;
    if (first == '"') p = string_end(s, p, &value->flags);
    else if (first == '[') p = list_end(s, p, depth + 1, &value->flags);
    else if (first == '{') p = object_end(s, p, depth + 1, &value->flags);
    else if (is_digit(first) || first == '-') {
        int power;
        first = '0';
        if (!(p = simple_end(p, value))) {
            if (!(p = number_end(start, &power))) return lost(s, glued_end(start), BAD_NUMBER);
            if ((power || p - start > 300) && !any_size && overflows(start, p)) return lost(s, p, OVERFLOWS);
        }
    } else p = word_end(s, p);
    if (!p) return NULL;
    value->at = start;
    value->size = (uint32_t)(p - start);
    value->kind = first;
    return p;
}

/* ---- the event ---- */

/* Decode the inside of a string at `out`, which has room for it. */
static uint8_t *unescape(Text p, Text end, uint8_t *out)
{
    while (p < end) {
        if (*p != '\\') { *out++ = *p++; continue; }
        if (p[1] == 'u') {
            int size;
            uint32_t c = unescape_u(p, &size);
            out = put_utf8(out, c);
            p += size;
            continue;
        }
        switch (p[1]) {
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        default: *out++ = p[1];
        }
        p += 2;
    }
    return out;
}

/* Copy a piece of the file; most are short, and there is room for 16 bytes more than there are. */
static inline uint8_t *put(uint8_t *out, Text p, size_t size)
{
    if (size <= 16) memcpy(out, p, 16);
    else memcpy(out, p, size);
    return out + size;
}

/* Copy a value as written, with halves of surrogate pairs replaced. */
static uint8_t *put_value(uint8_t *out, Value v)
{
    if (!(v.flags & HALF_PAIR)) return put(out, v.at, v.size);
    for (Text p = v.at, end = v.at + v.size; p < end;) {
        int size = 1;
        if (*p == '\\') {
            size = 2;
            if (p[1] == 'u' && unescape_u(p, &size) == 0xFFFD) {
                memcpy(out, (hex4(p + 2) & 0xF800) == 0xD800 ? (Text) "\\ufffd" : p, 6);
                out += 6;
                p += 6;
                continue;
            }
        }
        memcpy(out, p, (size_t)size);
        out += size;
        p += size;
    }
    return out;
}

/* The text of a string, or a value as written; good until the next call. */
static Text text_of(Scanner *s, Value v, size_t *size)
{
    if (v.kind == '"' && !(v.flags & ESCAPED)) { *size = v.size - 2; return v.at + 1; }
    if (v.kind != '"' && !(v.flags & HALF_PAIR)) { *size = v.size; return v.at; }
    s->scratch.size = 0;
    if (!reserve(s, &s->scratch, v.size)) { *size = 0; return v.at; }
    uint8_t *out = s->scratch.at;
    out = v.kind == '"' ? unescape(v.at + 1, v.at + v.size - 1, out) : put_value(out, v);
    *out = 0;
    *size = (size_t)(out - s->scratch.at);
    return s->scratch.at;
}

/* The number a value is, be it within quotes and blanks. */
static int number_of(Scanner *s, Value v, Text *start, Text *end)
{
    if (v.kind == '0') { *start = v.at; *end = v.at + v.size; return 1; }
    if (v.kind != '"') return 0;
    size_t size;
    int power;
    Text p = text_of(s, v, &size);
    *end = p + size;
    while (p < *end && is_blank(*p)) p++;
    while (p < *end && is_blank((*end)[-1])) --*end;
    *start = p;
    return p < *end && number_end(p, &power) == *end;
}

/* The same where it is a simple one, be it within quotes. */
static int simple_of(Value v, Value *number)
{
    if (v.simple) { *number = v; return 1; }
    if (v.kind != '"' || (v.flags & ESCAPED)) return 0;
    number->simple = 0;
    number->at = v.at + 1;
    return simple_end(number->at, number) == v.at + v.size - 1;
}

/* A simple number times 10**places, if that is whole and fits. */
static int simple_scaled(Value v, int places, int64_t *out)
{
    if (v.places > places || v.digits > INT64_MAX / POW10[places - v.places]) return 0;
    int64_t value = (int64_t)(v.digits * POW10[places - v.places]);
    *out = *v.at == '-' ? -value : value;
    return 1;
}

static int core_key(Text key, size_t size)
{
#define IS(word) (!memcmp(key, word, sizeof word - 1))
    switch (size) {
    case 1: return *key == 's' ? IGNORED : EXTRA;
    case 2: return IS("ph") ? PH : IS("ts") ? TS : IS("id") ? ID : IS("bp") ? IGNORED : EXTRA;
    case 3: return IS("dur") ? DUR : IS("cat") ? CAT : IS("pid") ? PID : IS("tid") ? TID : EXTRA;
    case 4: return IS("name") ? NAME : IS("args") ? ARGS : EXTRA;
    default: return EXTRA;
    }
#undef IS
}

/* The slot of a member in the table of this event: its own, or the free one where it belongs. */
static MemberSlot *slot_of(Scanner *s, const Member *m)
{
    size_t at = (m->hash ^ (m->extra ? 0x9E3779B9u : 0)) & s->slot_mask;
    for (; s->slots[at].round == s->round; at = (at + 1) & s->slot_mask) {
        const Member *other = &s->members[s->slots[at].index];
        if (other->hash == m->hash && other->size == m->size && other->extra == m->extra &&
            !memcmp(other->key, m->key, m->size))
            break;
    }
    return &s->slots[at];
}

/* Forget what the members of the last event were. */
static void new_round(Scanner *s)
{
    if (++s->round) return;
    memset(s->slots, 0, (s->slot_mask + 1) * sizeof *s->slots); /* once in 4 billion events */
    for (int32_t i = 0; i < s->n_keys; i++) s->known_keys[i].round[0] = s->known_keys[i].round[1] = 0;
    s->round = 1;
}

/* Empty the table of members and file those there are again, with more room if it has less. */
static int refile(Scanner *s, size_t room)
{
    if (room > s->slot_mask + 1 || !s->slots) {
        MemberSlot *slots = calloc(room, sizeof *slots);
        if (!slots) { s->no_memory = 1; return 0; }
        free(s->slots);
        s->slots = slots;
        s->slot_mask = room - 1;
    }
    new_round(s);
    for (size_t i = 0; i < s->n_members; i++) {
        const Member *m = &s->members[i];
        if (m->known) {
            s->known_keys[m->known].round[m->extra] = s->round;
            s->known_keys[m->known].member[m->extra] = (uint32_t)i;
            continue;
        }
        MemberSlot *slot = slot_of(s, m);
        slot->round = s->round;
        slot->index = (uint32_t)i;
    }
    return 1;
}

/* Add a member without looking for an earlier one of its key; its index or -1. */
static int64_t push_member(Scanner *s, const Member *m)
{
    if (s->n_members == s->room_members) {
        size_t room = s->room_members ? s->room_members * 2 : 64;
        Member *members = realloc(s->members, room * sizeof *members);
        if (!members) { s->no_memory = 1; return -1; }
        s->members = members;
        s->room_members = room;
    }
    s->members[s->n_members] = *m;
    return (int64_t)s->n_members++;
}

/* The column of a key of args, -1 if it has none. */
static int32_t column_of(const Scanner *s, const Member *m)
{
    if (m->known) return s->known_keys[m->known].column;
    for (size_t at = m->hash & s->column_mask; s->column_table[at] >= 0; at = (at + 1) & s->column_mask) {
        const Column *c = &s->columns[s->column_table[at]];
        if (c->hash == m->hash && c->key.size == m->size && !memcmp(c->key.at, m->key, m->size))
            return s->column_table[at];
    }
    return -1;
}

static inline int is_present(const Scanner *s, int32_t column) { return s->present[column >> 6] >> (column & 63) & 1; }

/* Keep a member; the last of each key wins, in the place of the first. */
static void keep_member(Scanner *s, const Member *m)
{
    int32_t column = m->extra ? -1 : column_of(s, m);
    int64_t index;
    if (column >= 0) {
        Column *c = &s->columns[column];
        if (is_present(s, column)) s->members[c->member].value = m->value;
        else if ((index = push_member(s, m)) >= 0) {
            c->member = (int32_t)index;
            s->present[column >> 6] |= (uint64_t)1 << (column & 63);
        }
        return;
    }
    if (m->known) {
        Key *k = &s->known_keys[m->known];
        if (k->round[m->extra] == s->round) s->members[k->member[m->extra]].value = m->value;
        else if ((index = push_member(s, m)) >= 0) {
            k->round[m->extra] = s->round;
            k->member[m->extra] = (uint32_t)index;
        }
        return;
    }
    MemberSlot *slot = slot_of(s, m);
    if (slot->round == s->round) { s->members[slot->index].value = m->value; return; }
    if ((index = push_member(s, m)) < 0) return;
    slot->round = s->round;
    slot->index = (uint32_t)index;
    if (s->n_members * 2 > s->slot_mask) refile(s, (s->slot_mask + 1) * 2);
}

/* Forget the members of args: the key came twice. */
static void forget_args(Scanner *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        if (!s->members[i].extra) continue;
        if ((int64_t)i == s->args_member) s->args_member = (int64_t)kept;
        s->members[kept++] = s->members[i];
    }
    s->n_members = kept;
    memset(s->present, 0, s->present_words * sizeof *s->present);
    refile(s, 0);
}

/* Whether the key stands at p, within its quotes. */
static inline int stands_at(const Key *k, Text p)
{
    uint32_t i = 0;
    for (; i + 1 < k->words; i++)
        if (load64(p + 8 * i) != k->quoted[i]) return 0;
    return ((load64(p + 8 * i) ^ k->quoted[i]) & k->last_bits) == 0;
}

/* The number of a key that was met before, or that is remembered now; NO_KEY if it is too long or they are too many. */
static int32_t known_key(Scanner *s, const Member *m)
{
    size_t at = m->hash & (2 * MOST_KEYS - 1);
    uint8_t quoted[KEY_BYTES] = {'"'};
    if (m->size > KEY_BYTES - 2) return NO_KEY;
    memcpy(quoted + 1, m->key, m->size);
    quoted[m->size + 1] = '"';
    for (; s->key_table[at]; at = (at + 1) & (2 * MOST_KEYS - 1)) {
        const Key *k = &s->known_keys[s->key_table[at]];
        if (k->size == m->size && !memcmp(k->quoted, quoted, sizeof quoted)) return s->key_table[at];
    }
    if (s->n_keys == MOST_KEYS) return NO_KEY;
    if (m->escaped)
        for (uint32_t i = 0; i < m->size; i++)
            if (m->key[i] < 0x20 || m->key[i] == '"' || m->key[i] == '\\') return NO_KEY; /* never stands as it is */
    Key *k = &s->known_keys[s->n_keys];
    Member asked = *m;
    asked.known = NO_KEY;
    memset(k, 0, sizeof *k);
    memcpy(k->quoted, quoted, sizeof quoted);
    k->size = m->size;
    k->hash = m->hash;
    k->words = (m->size + 2 + 7) / 8;
    memset(quoted, 0, sizeof quoted);
    memset(quoted, 0xFF, m->size + 2 - 8 * (size_t)(k->words - 1));
    memcpy(&k->last_bits, quoted, 8);
    k->column = column_of(s, &asked);
    k->core = core_key(m->key, m->size);
    return s->key_table[at] = s->n_keys++;
}

/* Past the key at p and its colon; the key goes into m, decoded. *before: the key before it, then this one. */
static Text read_key(Scanner *s, Text p, Member *m, int32_t *before)
{
    uint8_t flags = 0;
    Key *last = &s->known_keys[*before];
    for (int i = 0; i < 2; i++) {
        int32_t guess = last->next[i];
        const Key *k = &s->known_keys[guess];
        if (!guess || !stands_at(k, p)) continue;
        if (i) { last->next[1] = last->next[0]; last->next[0] = guess; }
        m->key = p + 1;
        m->size = k->size;
        m->hash = k->hash;
        m->escaped = 0;
        m->known = *before = guess;
        p = blank(p + k->size + 2);
        return *p == ':' ? blank(p + 1) : lost(s, p, SYNTAX);
    }
    Text end = string_end(s, p, &flags);
    if (!end) return NULL;
    m->escaped = flags & ESCAPED;
    m->key = p + 1;
    m->size = (uint32_t)(end - p - 2);
    if (m->escaped) { /* the keys of one event fit, so that none of them moves */
        if (!s->keys.size && !reserve(s, &s->keys, (size_t)(s->limit - p))) return NULL;
        uint8_t *out = s->keys.at + s->keys.size;
        m->size = (uint32_t)(unescape(p + 1, end - 1, out) - out);
        m->key = out;
        s->keys.size += m->size;
    }
    m->hash = hashed(s, m->key, m->size);
    m->known = known_key(s, m);
    if (m->known) { last->next[1] = last->next[0]; last->next[0] = m->known; }
    *before = m->known;
    p = blank(end);
    return *p == ':' ? blank(p + 1) : lost(s, p, SYNTAX);
}

static Text read_args(Scanner *s, Text p)
{
    Member m = {0};
    int32_t before = FIRST_ARGUMENT;
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        if (!(p = read_key(s, p, &m, &before)) || !(p = value_end(s, p, 2, 0, &m.value))) return NULL;
        keep_member(s, &m);
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return lost(s, p, SYNTAX);
        p = blank(p + 1);
    }
}

/* The value of the key "args": an object is taken apart, null is nothing, anything else is an extra member. */
static Text read_args_value(Scanner *s, Text p, Member *m)
{
    if (s->args_member >= 0) forget_args(s);
    if (*p == '{') {
        if (!(p = read_args(s, p))) return NULL;
        m->value.kind = '{';
    } else if (!(p = value_end(s, p, 1, 0, &m->value))) return NULL;
    m->extra = 1;
    m->done = m->value.kind == '{' || (m->value.kind == 'n');
    if (s->args_member < 0) s->args_member = push_member(s, m);
    else {
        s->members[s->args_member].value = m->value;
        s->members[s->args_member].done = m->done;
    }
    return p;
}

/* Take the event at p apart: past its end, or NULL with the reason. */
static Text read_event(Scanner *s, Text p)
{
    Text start = p;
    Member m = {0};
    int32_t before = FIRST_KEY;
    memset(s->core, 0, sizeof s->core);
    memset(s->present, 0, s->present_words * sizeof *s->present);
    s->n_members = s->keys.size = 0;
    s->args_member = -1;
    s->reason = NONE;
    s->lost_at = p;
    new_round(s);
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        m.extra = m.done = 0;
        if (p - start > MAX_EVENT) return lost(s, p, TOO_LARGE);
        if (!(p = read_key(s, p, &m, &before))) return NULL;
        int key = m.known ? s->known_keys[m.known].core : core_key(m.key, m.size);
        if (key == ARGS) p = read_args_value(s, p, &m);
        else p = value_end(s, p, 1, key == PID || key == TID || key == ID, key < CORE ? &s->core[key] : &m.value);
        if (!p) return NULL;
        if (key == EXTRA) {
            m.extra = 1;
            keep_member(s, &m);
        }
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return lost(s, p, SYNTAX);
        p = blank(p + 1);
    }
}

static int is_null(Value v) { return v.kind == 0 || v.kind == 'n'; }

/* ph as a character, -1 if it is none. */
static int phase(Scanner *s)
{
    if (is_null(s->core[PH])) return 0;
    if (s->core[PH].kind != '"') return -1;
    size_t size;
    Text p = text_of(s, s->core[PH], &size);
    return size == 1 && *p < 0x80 ? *p : -1;
}

static int read_stamp(Scanner *s, int key, int64_t *out)
{
    Text start, end;
    Value number;
    *out = INT64_MIN;
    if (is_null(s->core[key])) return NONE;
    if (simple_of(s->core[key], &number) && simple_scaled(number, 3, out)) return NONE;
    if (!number_of(s, s->core[key], &start, &end)) return WRONG_TYPE + key;
    return scaled(decimal(start, end), 3, 0, out) ? NONE : OUT_OF_RANGE + key - TS;
}

static int32_t label_code(Scanner *s, int key, int strip_digits)
{
    size_t size;
    if (is_null(s->core[key])) return -1;
    Text p = text_of(s, s->core[key], &size);
    if (strip_digits) while (size && is_digit(p[size - 1])) size--;
    if (size > SHORT) return code(s, p, size);
    uint64_t low = first64(p, size < 8 ? size : 8), high = size > 8 ? first64(p + 8, size - 8) : 0;
    Recent *recent = s->recent[key - NAME];
    for (int i = 0; i < RECENT; i++)
        if (recent[i].low == low && recent[i].high == high && recent[i].size == size && recent[i].code >= 0)
            return recent[i].code;
    Recent fresh = {low, high, (uint32_t)size, code(s, p, size)};
    recent[s->next_recent[key - NAME]++ % RECENT] = fresh;
    return fresh.code;
}

/* The id of an event: of millions of different ones nearly all are numbers, and a number needs no table of texts. */
static int64_t id_code(Scanner *s)
{
    size_t size, i = 0;
    uint64_t number = 0;
    if (is_null(s->core[ID])) return -1;
    if (s->core[ID].simple && !s->core[ID].places && *s->core[ID].at != '-') return -2 - (int64_t)s->core[ID].digits;
    Text p = text_of(s, s->core[ID], &size);
    if (size && size <= 19 && (*p != '0' || size == 1))
        for (; i < size && is_digit(p[i]); i++) number = number * 10 + (uint64_t)(p[i] - '0');
    return i && i == size && number < INT64_MAX ? -2 - (int64_t)number : code(s, p, size);
}

static int to_double(Scanner *s, Text start, Text end, double *out)
{
    if (quick_double(decimal(start, end), out)) return 1;
    if (overflows(start, end)) return 0;
    size_t size = (size_t)(end - start);
    char *copy = malloc(size + 1);
    if (!copy) { s->no_memory = 1; return 0; }
    memcpy(copy, start, size);
    copy[size] = 0;
    PyEval_RestoreThread(s->thread);
    *out = PyOS_string_to_double(copy, NULL, NULL);
    PyErr_Clear();
    s->thread = PyEval_SaveThread();
    free(copy);
    return 1;
}

/* Put an argument into its column if it fits there. */
static int promote(Scanner *s, Column *c, Value v)
{
    Text start, end;
    Value number;
    union { int64_t i; double f; } out;
    if (is_null(v)) return 0;
    if (c->kind == 's' || c->kind == 't') {
        size_t size;
        Text p = text_of(s, v, &size);
        append4(s, &c->values, c->kind == 's' ? code(s, p, size) : place_of(s, c, p, size));
        append4(s, &c->rows, (int32_t)s->rows);
        return 1;
    }
    int places = c->kind == 'n' ? 3 : 0;
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
    if (c->kind == 'f' && v.simple && v.digits <= 1ull << 53) {
        out.f = (double)v.digits / (double)POW10[v.places];
        if (*v.at == '-') out.f = -out.f;
    } else
#endif
    if (c->kind == 'f' || !simple_of(v, &number) || !simple_scaled(number, places, &out.i)) {
        if (!number_of(s, v, &start, &end)) return 0;
        if (c->kind == 'f' ? !to_double(s, start, end, &out.f)
                           : !scaled(decimal(start, end), places, c->kind == 'i', &out.i))
            return 0;
    }
    append8(s, &c->values, &out);
    append4(s, &c->rows, (int32_t)s->rows);
    return 1;
}

/* Write a key as JSON; never longer than it stood in the file. */
static uint8_t *put_key(uint8_t *out, const Member *m)
{
    static const char digits[] = "0123456789abcdef";
    *out++ = '"';
    if (!m->escaped) out = put(out, m->key, m->size);
    else for (Text p = m->key; p < m->key + m->size; p++) {
        const char *from = "\"\\\b\f\n\r\t", *found = *p ? strchr(from, *p) : NULL;
        if (found) {
            *out++ = '\\';
            *out++ = (uint8_t)"\"\\bfnrt"[found - from];
        } else if (*p < 0x20) {
            memcpy(out, "\\u00", 4);
            out[4] = (uint8_t)digits[*p >> 4];
            out[5] = (uint8_t)digits[*p & 15];
            out += 6;
        } else *out++ = *p;
    }
    *out++ = '"';
    return out;
}

/* The member of args with the key of m, or NULL. */
static Member *argument(Scanner *s, Member m)
{
    m.extra = 0;
    int32_t column = column_of(s, &m);
    if (column >= 0) return is_present(s, column) ? &s->members[s->columns[column].member] : NULL;
    if (m.known) {
        const Key *k = &s->known_keys[m.known];
        return k->round[0] == s->round ? &s->members[k->member[0]] : NULL;
    }
    MemberSlot *slot = slot_of(s, &m);
    return slot->round == s->round ? &s->members[slot->index] : NULL;
}

/* Write what no column took: members of the event first, members of args where they share a key with those, then the rest. */
static void write_rest(Scanner *s, size_t event_size)
{
    if (!reserve(s, &s->rest, event_size)) return;
    uint8_t *start = s->rest.at + s->rest.size, *out = start;
    for (int extra = 1; extra >= 0; extra--) {
        for (size_t i = 0; i < s->n_members; i++) {
            Member *m = &s->members[i], *source = m;
            if (m->done || m->extra != extra) continue;
            if (extra) {
                Member *same = argument(s, *m);
                if (same && !same->done) source = same;
            }
            *out = out == start ? '{' : ',';
            out = put_key(out + 1, m);
            *out++ = ':';
            out = put_value(out, source->value);
            source->done = 1;
        }
    }
    if (out == start) return;
    *out++ = '}';
    s->rest.size += (size_t)(out - start);
    append4(s, &s->rest_rows, (int32_t)s->rows);
    append4(s, &s->rest_offsets, (int32_t)s->rest.size);
}

/* Turn the event taken apart into a row. The reason if it cannot be one. */
static int keep_event(Scanner *s, size_t event_size)
{
    int64_t ts, dur;
    int reason, ph = phase(s);
    if (ph < 0) return WRONG_TYPE + PH;
    if ((reason = read_stamp(s, TS, &ts)) || (reason = read_stamp(s, DUR, &dur))) return reason;
    for (int key = NAME; key < CORE; key++) {
        uint8_t kind = s->core[key].kind;
        if (!is_null(s->core[key]) && kind != '"' && (kind != '0' || key < PID)) return WRONG_TYPE + key;
    }
    if (!reserve_row(s)) return NONE;
    s->ph[s->rows] = (uint8_t)ph;
    s->ts[s->rows] = ts;
    s->dur[s->rows] = dur;
    for (int key = NAME; key < ID; key++) {
        int strip = key == NAME && s->flow_names && (ph == 's' || ph == 't' || ph == 'f');
        s->labels[key - NAME][s->rows] = label_code(s, key, strip);
    }
    s->id[s->rows] = id_code(s);
    for (size_t word = 0; word < s->present_words; word++)
        for (uint64_t left = s->present[word]; left; left &= left - 1) {
            Column *c = &s->columns[word * 64 + (size_t)lowest_bit64(left)];
            if (promote(s, c, s->members[c->member].value)) s->members[c->member].done = 1;
        }
    write_rest(s, event_size);
    s->rows++;
    return NONE;
}

/* ---- the array ---- */

enum { AT_START, IN_SCALAR, IN_STRING, IN_ESCAPE, INSIDE };

static int ends_scalar(uint8_t c) { return is_blank(c) || (c && strchr(",:\"{}[]", c)); }

/* Past the value at p by quotes and brackets alone, NULL if it goes on behind the end. Resumes where it stopped. */
static Text skim(Scanner *s, Text p, Text end)
{
    if (p < end && s->skim_mode == AT_START) {
        s->skim_depth = 0;
        s->skim_mode = *p == '"' ? IN_STRING : *p == '{' || *p == '[' ? INSIDE : IN_SCALAR;
        p += *p == '"';
    }
    for (; p < end; p++) {
        uint8_t c = *p;
        if (s->skim_mode == INSIDE) {
            if (c == '"') s->skim_mode = IN_STRING;
            else if (c == '{' || c == '[') s->skim_depth++;
            else if ((c == '}' || c == ']') && --s->skim_depth == 0) return p + 1;
        } else if (s->skim_mode == IN_STRING) {
            if (c == '\\') s->skim_mode = IN_ESCAPE;
            else if (c == '"') {
                if (!s->skim_depth) return p + 1;
                s->skim_mode = INSIDE;
            }
        } else if (s->skim_mode == IN_ESCAPE) s->skim_mode = IN_STRING;
        else if (ends_scalar(c)) return p;
    }
    return NULL;
}

/* Count an element that ends, by what was lost of it. */
static void count_element(Scanner *s, int reason)
{
    s->after = ELEMENT;
    s->elements++;
    s->bad[reason]++;
}

/* From p on something is lost: pass it from now on. Past its first byte. */
static Text lose(Scanner *s, Text p, int reason, int torn)
{
    s->lost = reason;
    s->seeks = reason != NOT_OBJECT && reason != OVERFLOWS;
    s->torn = torn;
    s->skim_mode = AT_START;
    if (reason != THREAD) skim(s, p, p + 1);
    s->pending = 1;
    return p + 1;
}

/* Read the element at p: past it, NULL if it is not complete. If it is lost, past its first byte. */
static Text read_element(Scanner *s, Text p, Text end)
{
    if (*p != '{') return lose(s, p, NOT_OBJECT, 0);
    s->limit = end;
    Text stop = read_event(s, p);
    if (stop && stop - p <= MAX_EVENT) {
        count_element(s, keep_event(s, (size_t)(stop - p)));
        return stop;
    }
    if (stop || s->lost_at - p > MAX_EVENT) return lose(s, p, TOO_LARGE, 0);
    int ends = end - s->lost_at < LOOKAHEAD;
    if (ends && !s->last) return end - p > MAX_EVENT ? lose(s, p, TOO_LARGE, 0) : NULL;
    return lose(s, p, s->reason, !ends);
}

/* Whether an event stands at p by which the text can be followed again: whole, and with what must come behind it. */
static int stands(Scanner *s, Text p, Text end)
{
    Text first = blank(p + 1);
    if (first < end && *first != '"') return NO;
    s->limit = end;
    Text stop = read_event(s, p);
    if (!stop) return !s->last && end - s->lost_at < LOOKAHEAD && end - p < NEAR ? PERHAPS : NO;
    if (stop - p > NEAR || s->core[NAME].kind != '"' || phase(s) <= 0) return NO;
    stop = blank(stop);
    if (stop < end) return *stop == ',' || *stop == ']' ? YES : NO;
    return !s->last && end - p < 2 * NEAR ? PERHAPS : NO;
}

/* Note that text was passed by until the event at p. */
static void end_gap(Scanner *s, Text start, Text p)
{
    if (!s->gaps++) s->gap_at = start - s->base - s->pending;
    s->gap_bytes += s->pending + (p - start);
    s->after = COMMA;
}

/* Pass what is lost: to its end, or to an event within it. NULL if both lie behind the data; *at is then where to go on. */
static Text pass_lost(Scanner *s, Text *at, Text end)
{
    Text start = *at, p = start, stop = NULL;
    for (;;) {
        Text next = s->seeks ? memchr(p, '{', (size_t)(end - p)) : NULL;
        if (!next) next = end;
        if (s->lost != THREAD && (stop = skim(s, p, next))) {
            count_element(s, s->pending + (stop - start) > MAX_EVENT ? TOO_LARGE : s->lost);
            break;
        }
        int found = next < end ? stands(s, next, end) : PERHAPS;
        if (found == PERHAPS) {
            s->pending += next - start;
            *at = next;
            return NULL;
        }
        if (found == YES) {
            end_gap(s, start, stop = next);
            break;
        }
        if (s->lost != THREAD) skim(s, next, next + 1);
        p = next + 1;
    }
    s->lost = NONE;
    s->pending = 0;
    return stop;
}

/* Read elements until the data or the array ends. */
static int read_elements(Scanner *s, Text *at, Text end, Text *done)
{
    while (!s->no_memory) {
        Text p = *at;
        if (s->lost) {
            if (!(p = pass_lost(s, at, end))) return s->last && s->torn ? DAMAGED : MORE;
            *at = p;
            if (s->after == ELEMENT) *done = p;
            continue;
        }
        *at = p = blank(p);
        if (p >= end) return MORE;
        if (*p == ',' || *p == ']') {
            s->bad[EMPTY] += s->after == COMMA || (*p == ',' && s->after == OPEN);
            *at = ++p;
            if (p[-1] == ']') return END;
            s->after = COMMA;
            continue;
        }
        if (*p == ':' || *p == '}' || (s->after == ELEMENT && *p != '{')) {
            *at = lose(s, p, THREAD, 1);
            continue;
        }
        if (s->after == ELEMENT) {
            s->bad[NO_COMMA]++;
            s->after = COMMA;
        }
        if (!(p = read_element(s, p, end))) return MORE;
        *at = p;
        if (!s->lost) *done = p;
    }
    return MORE;
}

/* ---- the Python object ---- */

static void start_batch(Scanner *s)
{
    if (s->held > s->table_limit) {
        for (size_t i = 0; i <= s->known_mask; i++) s->known[i].code = -1;
        s->n_known = s->held = s->texts.size = 0;
        memset(s->recent, 0xFF, sizeof s->recent);
    }
    s->first_code = s->next_code;
    s->first_text = s->texts.size;
    s->elements = s->rows = s->gaps = s->rest_rows.size = s->rest.size = 0;
    s->gap_bytes = s->gap_at = 0;
    s->text_offsets.size = s->rest_offsets.size = 0;
    append4(s, &s->text_offsets, 0);
    append4(s, &s->rest_offsets, 0);
    for (size_t i = 0; i < s->n_columns; i++) {
        Column *c = &s->columns[i];
        c->rows.size = c->values.size = c->text.size = c->text_offsets.size = 0;
        if (c->kind != 't') continue;
        append4(s, &c->text_offsets, 0);
        if (c->n_words) memset(c->words, 0xFF, (c->word_mask + 1) * sizeof *c->words);
        c->n_words = 0;
    }
    memset(s->bad, 0, sizeof s->bad);
}

static PyObject *buffer(const void *at, size_t size)
{
    return PyByteArray_FromStringAndSize(size ? at : "", (Py_ssize_t)size);
}

static PyObject *columns_of(Scanner *s)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < s->n_columns; i++) {
        Column *c = &s->columns[i];
        PyObject *parts = Py_BuildValue(
            "(NNNN)", buffer(c->rows.at, c->rows.size), buffer(c->values.at, c->values.size),
            buffer(c->text_offsets.at, c->text_offsets.size), buffer(c->text.at, c->text.size));
        if (!parts || PyList_Append(list, parts) < 0) Py_CLEAR(list);
        Py_XDECREF(parts);
    }
    return list;
}

static PyObject *bad_of(Scanner *s)
{
    PyObject *bad = PyDict_New();
    for (int i = NONE + 1; bad && i < REASONS; i++) {
        if (!s->bad[i]) continue;
        PyObject *count = PyLong_FromLongLong(s->bad[i]);
        if (!count || PyDict_SetItemString(bad, REASON[i], count) < 0) Py_CLEAR(bad);
        Py_XDECREF(count);
    }
    return bad;
}

static PyObject *parts_of(Scanner *s)
{
    size_t n = s->rows;
    return Py_BuildValue(
        "(nnNNNNNNNNNNNNLNNNnLL)", (Py_ssize_t)s->elements, (Py_ssize_t)n, buffer(s->ph, n), buffer(s->ts, n * 8),
        buffer(s->dur, n * 8), buffer(s->labels[0], n * 4), buffer(s->labels[1], n * 4), buffer(s->labels[2], n * 4),
        buffer(s->labels[3], n * 4), buffer(s->id, n * 8), columns_of(s),
        buffer(s->rest_rows.at, s->rest_rows.size), buffer(s->rest_offsets.at, s->rest_offsets.size),
        buffer(s->rest.at, s->rest.size), (long long)s->first_code,
        buffer(s->text_offsets.at, s->text_offsets.size),
        buffer(s->texts.at ? s->texts.at + s->first_text : NULL, s->texts.size - s->first_text), bad_of(s),
        (Py_ssize_t)s->gaps, (long long)s->gap_bytes, (long long)s->gap_at);
}

static PyObject *Scanner_feed(PyObject *self, PyObject *args)
{
    Scanner *s = (Scanner *)self;
    PyObject *data;
    Py_ssize_t start, end;
    Py_buffer view;
    int last;
    if (!PyArg_ParseTuple(args, "Onnp", &data, &start, &end, &last)) return NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_WRITABLE) < 0) return NULL;
    if (start < 0 || end < start || view.len < PAD || end > view.len - PAD || s->busy) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the range must lie in the data, PAD bytes before its end, one call at a time");
        return NULL;
    }
    Text base = view.buf, at = base + start, done = NULL;
    s->busy = 1;
    s->last = last;
    s->base = base;
    s->thread = PyEval_SaveThread();
    start_batch(s);
    memset((uint8_t *)view.buf + end, 0, PAD);
    int met = read_elements(s, &at, base + end, &done);
    PyEval_RestoreThread(s->thread);
    s->busy = 0;
    Py_ssize_t stopped = at - base, ended = done ? done - base : -1;
    PyBuffer_Release(&view);
    if (s->no_memory) return PyErr_NoMemory();
    return Py_BuildValue("(innN)", met, stopped, ended, parts_of(s));
}

static PyObject *Scanner_pending(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((Scanner *)self)->pending);
}

/* Room for n columns and their table. */
static int set_columns(Scanner *s, PyObject *columns)
{
    Py_ssize_t n = PySequence_Size(columns);
    size_t room = 8;
    if (n < 0) return -1;
    while (room < (size_t)n * 4) room *= 2;
    s->columns = calloc((size_t)n + 1, sizeof *s->columns);
    s->column_table = malloc(room * sizeof *s->column_table);
    s->present_words = ((size_t)n + 63) / 64;
    s->present = calloc(s->present_words + 1, sizeof *s->present);
    s->known_keys = calloc(MOST_KEYS, sizeof *s->known_keys);
    s->key_table = calloc(2 * MOST_KEYS, sizeof *s->key_table);
    s->n_keys = KEYS;
    if (!s->columns || !s->column_table || !s->present || !s->known_keys || !s->key_table) {
        PyErr_NoMemory();
        return -1;
    }
    s->column_mask = room - 1;
    for (size_t i = 0; i < room; i++) s->column_table[i] = -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *column = PySequence_GetItem(columns, i);
        const char *key, *kind;
        Py_ssize_t size;
        if (!column || !PyTuple_Check(column) || !PyArg_ParseTuple(column, "s#s", &key, &size, &kind)) {
            if (column && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a column is a tuple (key, type)");
            Py_XDECREF(column);
            return -1;
        }
        Column *c = &s->columns[s->n_columns];
        append(s, &c->key, key, (size_t)size);
        c->kind = *kind;
        if (c->kind == 't') grow_words(s, c);
        Py_DECREF(column);
        if (s->no_memory) { PyErr_NoMemory(); return -1; }
        c->hash = hashed(s, c->key.at, c->key.size);
        size_t at = c->hash & s->column_mask;
        while (s->column_table[at] >= 0) at = (at + 1) & s->column_mask;
        s->column_table[at] = (int32_t)s->n_columns++;
    }
    return 0;
}

static PyObject *Scanner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *columns;
    int flow_names;
    Py_ssize_t table_bytes;
    unsigned long long seed;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Scanner takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OpnK", &columns, &flow_names, &table_bytes, &seed)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scanner *s = (Scanner *)alloc(type, 0);
    if (!s) return NULL;
    s->flow_names = flow_names;
    s->table_limit = (size_t)table_bytes;
    s->seed = seed;
    memset(s->recent, 0xFF, sizeof s->recent);
    if (!grow_known(s) || !refile(s, 256)) PyErr_NoMemory();
    else if (set_columns(s, columns) == 0) return (PyObject *)s;
    Py_DECREF(s);
    return NULL;
}

static void Scanner_dealloc(PyObject *self)
{
    Scanner *s = (Scanner *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (size_t i = 0; i < s->n_columns; i++) {
        free(s->columns[i].key.at);
        free(s->columns[i].rows.at);
        free(s->columns[i].values.at);
        free(s->columns[i].text.at);
        free(s->columns[i].text_offsets.at);
        free(s->columns[i].words);
    }
    void *owned[] = {
        s->columns, s->column_table, s->present, s->known_keys, s->key_table, s->members, s->slots, s->keys.at, s->scratch.at, s->known, s->texts.at,
        s->text_offsets.at, s->ph, s->ts, s->dur, s->id, s->rest_rows.at, s->rest_offsets.at, s->rest.at,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    for (int i = 0; i < LABELS; i++) free(s->labels[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"feed", Scanner_feed, METH_VARARGS, "feed(data, start, end, last) -> (met, at, done, parts). See model.Scanner."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"pending", Scanner_pending, NULL, "Bytes already passed of what is lost.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot type_slots[] = {
    {Py_tp_doc, "Scanner(columns, flow_names, table_bytes, seed). See model.Scanner."},
    {Py_tp_new, Scanner_new},
    {Py_tp_dealloc, Scanner_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

static PyType_Spec type_spec = {"ingest.events._scan.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, type_slots};

static int exec_module(PyObject *module)
{
#ifdef WIDER
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && !getenv("NPULENS_NARROW")) long_plain_end = plain_end_avx2;
#endif
    PyObject *type = PyType_FromModuleAndSpec(module, &type_spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "ingest.events._scan", "The event scanner in C; plain.py is the same in Python.", 0, NULL,
    module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&module_def); }
