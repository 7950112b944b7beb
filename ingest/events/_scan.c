/* The event scanner: one pass over the text of an event array, straight into columns.
 *
 * plain.py says what it does; this does the same to the last bit, a hundred times faster, without the GIL.
 *
 * How it stays inside its memory: the PAD bytes behind the data are set to NUL, which no JSON token contains, so
 * every loop ends there without looking at the end of the data; lookahead and wide loads reach at most 32 bytes.
 * Whatever the strict parser refuses is skimmed by quotes and brackets alone: if the element ends inside the data
 * it is counted as lost, otherwise it is simply not complete yet and comes again with more data.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define WIDE 1
#endif

enum { PAD = 64, MAX_DEPTH = 64, MAX_EVENT = 4 << 20 };
enum { MORE, END, DAMAGED };          /* what feed met */
enum { OPEN, COMMA, ELEMENT };        /* what the next element comes after */
enum { ESCAPED = 1, HALF_PAIR = 2 };  /* a string has escapes; one of them is half a surrogate pair */

enum { PH, TS, DUR, NAME, CAT, PID, TID, ID, CORE, ARGS = CORE, IGNORED, EXTRA };
enum { LABELS = TID - NAME + 1 };

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

typedef const uint8_t *Text;

typedef struct { uint8_t *at; size_t size, room; } Bytes;

/* A value as written. kind: its first character, '0' for every number, 0 if there is none. */
typedef struct { Text at; uint32_t size; uint8_t kind, flags; } Value;

/* A member of args, or of the event itself if it is none of the known keys (extra). */
typedef struct { Text key; uint32_t size, hash; Value value; uint8_t extra, escaped, done; } Member;

typedef struct { uint32_t round, index; } MemberSlot; /* filled if round is the table's */

typedef struct { uint32_t hash, offset, size; int32_t code; } Known; /* empty if code < 0 */

typedef struct { Bytes key; uint32_t hash; char kind; int64_t member; Bytes rows, values; } Column;

typedef struct {
    PyObject_HEAD
    /* settings */
    Column *columns;
    int32_t *column_table; /* open addressing by hash; -1 is empty */
    size_t n_columns, column_mask;
    int flow_names;
    uint64_t seed;
    size_t table_limit;
    /* where the array stands */
    int after, busy, no_memory;
    int64_t pending;
    int skim_mode, skim_depth;
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
    Text limit;
    PyThreadState *thread;
    /* texts already coded */
    Known *known;
    size_t known_mask, n_known, held;
    Bytes texts;
    int64_t next_code, first_code;
    size_t first_text;
    Bytes text_offsets;
    /* the batch */
    size_t elements, rows, room_rows;
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
static inline Text blank(Text p) { while (*p <= ' ' && is_blank(*p)) p++; return p; }

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

static inline uint64_t load64(Text p) { uint64_t v; memcpy(&v, p, 8); return v; }

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

/* Reads up to 8 bytes beyond the text, never uses them. */
static inline uint32_t hashed(const Scanner *s, Text p, size_t size)
{
    uint64_t h = s->seed ^ size * 0x9E3779B97F4A7C15u;
    for (; size > 8; size -= 8, p += 8) h = mix(h ^ load64(p), 0xA0761D6478BD642Fu);
    uint64_t last = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy(&last, p, size);
#else
    if (size) last = load64(p) & ~(uint64_t)0 >> (64 - 8 * size);
#endif
    h = mix(h ^ last, 0xE7037ED1A0B428DBu);
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
    int32_t offset = (int32_t)(s->texts.size - s->first_text);
    append(s, &s->text_offsets, &offset, 4);
    s->held += size + 48;
    if (++s->n_known * 2 > s->known_mask) grow_known(s);
    return fresh.code;
}

/* ---- values, strictly ---- */

static Text lost(Scanner *s, int reason) { s->reason = reason; return NULL; }

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

/* Past the string whose opening quote is at p; sets ESCAPED and HALF_PAIR in *flags. NULL with the reason if it is bad. */
static Text string_end(Scanner *s, Text p, uint8_t *flags)
{
    if (*p++ != '"') return lost(s, SYNTAX);
    for (;;) {
#ifdef WIDE
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i special = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        __m128i low = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed: also every byte of 0x80 and above */
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_or_si128(special, low));
        if (!found) { p += 16; continue; }
        p += lowest_bit(found);
#else
        while (*p != '"' && *p != '\\' && (uint8_t)(*p - 0x20) < 0x60) p++;
#endif
        if (*p == '"') return p + 1;
        if (*p == '\\') {
            *flags |= ESCAPED;
            if (p[1] == 'u') {
                int size;
                if (hex4(p + 2) < 0) return lost(s, BAD_ESCAPE);
                if (unescape_u(p, &size) == 0xFFFD && (hex4(p + 2) & 0xF800) == 0xD800) *flags |= HALF_PAIR;
                p += size;
            } else if (p[1] && strchr("\"\\/bfnrt", p[1])) p += 2;
            else return lost(s, BAD_ESCAPE);
        } else {
            int size = utf8_size(p);
            if (*p < 0x20) return lost(s, CONTROL);
            if (!size) return lost(s, BAD_UTF8);
            p += size;
        }
    }
}

static Text value_end(Scanner *s, Text p, int depth, int any_size, Value *value);

static Text container_end(Scanner *s, Text p, int depth, uint8_t *flags)
{
    if (depth > MAX_DEPTH) return lost(s, TOO_DEEP);
    int is_object = *p == '{';
    uint8_t close = is_object ? '}' : ']';
    p = blank(p + 1);
    if (*p == close) return p + 1;
    for (;;) {
        Value inner;
        if (is_object) {
            if (!(p = string_end(s, p, flags))) return NULL;
            p = blank(p);
            if (*p != ':') return lost(s, SYNTAX);
            p = blank(p + 1);
        }
        if (!(p = value_end(s, p, depth, 0, &inner))) return NULL;
        *flags |= inner.flags;
        p = blank(p);
        if (*p == close) return p + 1;
        if (*p != ',') return lost(s, SYNTAX);
        p = blank(p + 1);
    }
}

static Text word_end(Scanner *s, Text p)
{
    size_t size = !memcmp(p, "true", 4) || !memcmp(p, "null", 4) ? 4 : !memcmp(p, "false", 5) ? 5 : 0;
    if (size && !is_glued(p[size])) return p + size;
    int constant = *p == 'N' || *p == 'I' || *p == 'i' || (*p == 'n' && p[1] != 'u');
    return lost(s, constant ? BAD_NUMBER : SYNTAX);
}

/* Past the value at p, in a container of that depth. any_size: a number may exceed what a double holds. */
static Text value_end(Scanner *s, Text p, int depth, int any_size, Value *value)
{
    Text start = p;
    uint8_t first = *p;
    value->flags = 0;
    if (first == '"') p = string_end(s, p, &value->flags);
    else if (first == '{' || first == '[') p = container_end(s, p, depth + 1, &value->flags);
    else if (is_digit(first) || first == '-') {
        int power;
        if (!(p = number_end(p, &power))) return lost(s, BAD_NUMBER);
        if ((power || p - start > 300) && !any_size && overflows(start, p)) return lost(s, OVERFLOWS);
        first = '0';
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

/* Copy a value as written, with halves of surrogate pairs replaced. */
static uint8_t *put_value(uint8_t *out, Value v)
{
    if (!(v.flags & HALF_PAIR)) {
        memcpy(out, v.at, v.size);
        return out + v.size;
    }
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

/* Empty the table of members and file those there are again. */
static int refile(Scanner *s, size_t room)
{
    if (room > s->slot_mask + 1 || !s->slots) {
        MemberSlot *slots = calloc(room, sizeof *slots);
        if (!slots) { s->no_memory = 1; return 0; }
        free(s->slots);
        s->slots = slots;
        s->slot_mask = room - 1;
        s->round = 0;
    }
    if (++s->round == 0) { /* once in 4 billion events */
        memset(s->slots, 0, (s->slot_mask + 1) * sizeof *s->slots);
        s->round = 1;
    }
    for (size_t i = 0; i < s->n_members; i++) {
        MemberSlot *slot = slot_of(s, &s->members[i]);
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

static Column *column_of(const Scanner *s, const Member *m)
{
    for (size_t at = m->hash & s->column_mask; s->column_table[at] >= 0; at = (at + 1) & s->column_mask) {
        Column *c = &s->columns[s->column_table[at]];
        if (c->hash == m->hash && c->key.size == m->size && !memcmp(c->key.at, m->key, m->size)) return c;
    }
    return NULL;
}

/* Keep a member; the last of each key wins, in the place of the first. */
static void keep_member(Scanner *s, const Member *m)
{
    Column *c = m->extra ? NULL : column_of(s, m);
    if (c) {
        if (c->member < 0) c->member = push_member(s, m);
        else s->members[c->member].value = m->value;
        return;
    }
    MemberSlot *slot = slot_of(s, m);
    if (slot->round == s->round) { s->members[slot->index].value = m->value; return; }
    int64_t index = push_member(s, m);
    if (index < 0) return;
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
    for (size_t i = 0; i < s->n_columns; i++) s->columns[i].member = -1;
    refile(s, 0);
}

/* Past the key at p and its colon; the key goes into m, decoded. */
static Text read_key(Scanner *s, Text p, Member *m)
{
    uint8_t flags = 0;
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
    p = blank(end);
    return *p == ':' ? blank(p + 1) : lost(s, SYNTAX);
}

static Text read_args(Scanner *s, Text p)
{
    Member m = {0};
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        if (!(p = read_key(s, p, &m)) || !(p = value_end(s, p, 2, 0, &m.value))) return NULL;
        m.hash = hashed(s, m.key, m.size);
        keep_member(s, &m);
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return lost(s, SYNTAX);
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
    if (s->args_member < 0) {
        m->hash = hashed(s, m->key, m->size);
        s->args_member = push_member(s, m);
    } else {
        s->members[s->args_member].value = m->value;
        s->members[s->args_member].done = m->done;
    }
    return p;
}

/* Take the event at p apart: past its end, or NULL with the reason. */
static Text read_event(Scanner *s, Text p)
{
    Text start = p;
    memset(s->core, 0, sizeof s->core);
    for (size_t i = 0; i < s->n_columns; i++) s->columns[i].member = -1;
    s->n_members = s->keys.size = 0;
    s->args_member = -1;
    s->reason = NONE;
    refile(s, 0);
    p = blank(p + 1);
    if (*p == '}') return p + 1;
    for (;;) {
        Member m = {0};
        if (p - start > MAX_EVENT) return lost(s, TOO_LARGE);
        if (!(p = read_key(s, p, &m))) return NULL;
        int key = core_key(m.key, m.size);
        if (key == ARGS) p = read_args_value(s, p, &m);
        else p = value_end(s, p, 1, key == PID || key == TID || key == ID, key < CORE ? &s->core[key] : &m.value);
        if (!p) return NULL;
        if (key == EXTRA) {
            m.extra = 1;
            m.hash = hashed(s, m.key, m.size);
            keep_member(s, &m);
        }
        p = blank(p);
        if (*p == '}') return p + 1;
        if (*p != ',') return lost(s, SYNTAX);
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
    *out = INT64_MIN;
    if (is_null(s->core[key])) return NONE;
    if (!number_of(s, s->core[key], &start, &end)) return WRONG_TYPE + key;
    return scaled(decimal(start, end), 3, 0, out) ? NONE : OUT_OF_RANGE + key - TS;
}

static int32_t label_code(Scanner *s, int key, int strip_digits)
{
    size_t size;
    if (is_null(s->core[key])) return -1;
    Text p = text_of(s, s->core[key], &size);
    if (strip_digits) while (size && is_digit(p[size - 1])) size--;
    return code(s, p, size);
}

/* The id of an event: of millions of different ones nearly all are numbers, and a number needs no table of texts. */
static int64_t id_code(Scanner *s)
{
    size_t size, i = 0;
    uint64_t number = 0;
    if (is_null(s->core[ID])) return -1;
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
    union { int64_t i; double f; int32_t s; } out;
    size_t size = 8;
    if (is_null(v)) return 0;
    if (c->kind == 's') {
        Text p = text_of(s, v, &size);
        out.s = code(s, p, size);
        size = 4;
    } else {
        if (!number_of(s, v, &start, &end)) return 0;
        if (c->kind == 'f' ? !to_double(s, start, end, &out.f)
                           : !scaled(decimal(start, end), c->kind == 'n' ? 3 : 0, c->kind == 'i', &out.i))
            return 0;
    }
    int32_t row = (int32_t)s->rows;
    append(s, &c->rows, &row, 4);
    append(s, &c->values, &out, size);
    return 1;
}

/* Write a key as JSON; never longer than it stood in the file. */
static uint8_t *put_key(uint8_t *out, const Member *m)
{
    static const char digits[] = "0123456789abcdef";
    *out++ = '"';
    if (!m->escaped) {
        memcpy(out, m->key, m->size);
        out += m->size;
    } else for (Text p = m->key; p < m->key + m->size; p++) {
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
    Column *c = column_of(s, &m);
    if (c) return c->member < 0 ? NULL : &s->members[c->member];
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
    int32_t row = (int32_t)s->rows, offset = (int32_t)s->rest.size;
    append(s, &s->rest_rows, &row, 4);
    append(s, &s->rest_offsets, &offset, 4);
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
    for (size_t i = 0; i < s->n_columns; i++) {
        Column *c = &s->columns[i];
        if (c->member >= 0 && promote(s, c, s->members[c->member].value)) s->members[c->member].done = 1;
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

/* Read the element at p: past it, or NULL if it is not complete. */
static Text read_element(Scanner *s, Text p, Text end)
{
    Text start = p, stop = NULL;
    int reason = NONE;
    if (*p == '{' && !s->pending) {
        s->limit = end;
        stop = read_event(s, p);
        if (stop) reason = stop - start > MAX_EVENT ? TOO_LARGE : keep_event(s, (size_t)(stop - start));
        else reason = s->reason;
    } else reason = NOT_OBJECT;
    if (!stop) {
        if (!s->pending) s->skim_mode = AT_START;
        stop = skim(s, p, end);
        if (!stop) return NULL;
        if (stop - start + s->pending > MAX_EVENT) reason = TOO_LARGE;
    }
    if (stop > start || s->pending) {
        s->pending = 0;
        s->after = ELEMENT;
        s->elements++;
        s->bad[reason]++;
    }
    return stop;
}

/* Read elements until the data or the array ends. */
static int read_elements(Scanner *s, Text *at, Text end, Text *done)
{
    Text p = *at;
    while (!s->no_memory) {
        if (!s->pending) {
            p = blank(p);
            *at = p;
            if (p >= end) return MORE;
            if (*p == ',' || *p == ']') {
                s->bad[EMPTY] += s->after == COMMA || (*p == ',' && s->after == OPEN);
                *at = ++p;
                if (p[-1] == ']') return END;
                s->after = COMMA;
                continue;
            }
            if (s->after == ELEMENT) {
                if (*p != '{') return DAMAGED;
                s->bad[NO_COMMA]++;
                s->after = COMMA;
            }
        }
        Text stop = read_element(s, p, end);
        if (!stop) {
            if (s->pending || end - p > MAX_EVENT) {
                s->pending += end - p;
                *at = end;
            }
            return MORE;
        }
        if (s->after != ELEMENT) return DAMAGED;
        *at = *done = p = stop;
    }
    return MORE;
}

/* ---- the Python object ---- */

static void start_batch(Scanner *s)
{
    if (s->held > s->table_limit) {
        for (size_t i = 0; i <= s->known_mask; i++) s->known[i].code = -1;
        s->n_known = s->held = s->texts.size = 0;
    }
    s->first_code = s->next_code;
    s->first_text = s->texts.size;
    s->elements = s->rows = s->rest_rows.size = s->rest.size = 0;
    s->text_offsets.size = s->rest_offsets.size = 0;
    int32_t zero = 0;
    append(s, &s->text_offsets, &zero, 4);
    append(s, &s->rest_offsets, &zero, 4);
    for (size_t i = 0; i < s->n_columns; i++) s->columns[i].rows.size = s->columns[i].values.size = 0;
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
        PyObject *pair = Py_BuildValue("(NN)", buffer(c->rows.at, c->rows.size), buffer(c->values.at, c->values.size));
        if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
        Py_XDECREF(pair);
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
        "(nnNNNNNNNNNNNNLNNN)", (Py_ssize_t)s->elements, (Py_ssize_t)n, buffer(s->ph, n), buffer(s->ts, n * 8),
        buffer(s->dur, n * 8), buffer(s->labels[0], n * 4), buffer(s->labels[1], n * 4), buffer(s->labels[2], n * 4),
        buffer(s->labels[3], n * 4), buffer(s->id, n * 8), columns_of(s),
        buffer(s->rest_rows.at, s->rest_rows.size), buffer(s->rest_offsets.at, s->rest_offsets.size),
        buffer(s->rest.at, s->rest.size), (long long)s->first_code,
        buffer(s->text_offsets.at, s->text_offsets.size),
        buffer(s->texts.at ? s->texts.at + s->first_text : NULL, s->texts.size - s->first_text), bad_of(s));
}

static PyObject *Scanner_feed(PyObject *self, PyObject *args)
{
    Scanner *s = (Scanner *)self;
    PyObject *data;
    Py_ssize_t start, end;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "Onn", &data, &start, &end)) return NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_WRITABLE) < 0) return NULL;
    if (start < 0 || end < start || view.len < PAD || end > view.len - PAD || s->busy) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the range must lie in the data, PAD bytes before its end, one call at a time");
        return NULL;
    }
    Text base = view.buf, at = base + start, done = NULL;
    s->busy = 1;
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
    if (!s->columns || !s->column_table) { PyErr_NoMemory(); return -1; }
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
    }
    void *owned[] = {
        s->columns, s->column_table, s->members, s->slots, s->keys.at, s->scratch.at, s->known, s->texts.at,
        s->text_offsets.at, s->ph, s->ts, s->dur, s->id, s->rest_rows.at, s->rest_offsets.at, s->rest.at,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    for (int i = 0; i < LABELS; i++) free(s->labels[i]);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"feed", Scanner_feed, METH_VARARGS, "feed(data, start, end) -> (met, at, done, parts). See model.Scanner."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"pending", Scanner_pending, NULL, "Bytes already passed of an oversized element.", NULL},
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
