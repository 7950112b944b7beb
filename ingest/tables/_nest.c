/* Lanes for the spans of a track: see nest.py, which is the same in Python and says what it means. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The state is a bytearray of this struct, so that a track may continue in the next batch. */
typedef struct {
    int64_t track;
    int64_t used;
    int64_t crowded;
    int64_t lanes;
} Head;

typedef struct {
    int64_t start, end, id;
} Lane;

static int64_t place(Head *head, Lane *lanes, int64_t start, int64_t end, int64_t id, int64_t *parent)
{
    int64_t used = head->used, below = -1, lane;
    while (used > 0 && lanes[used - 1].end <= start)
        used--;
    for (int64_t i = used - 1; i >= 0; i--)
        if (lanes[i].end > start && lanes[i].end >= end && (below < 0 || lanes[i].start > lanes[below].start))
            below = i;
    *parent = below < 0 ? -1 : lanes[below].id;
    for (lane = below + 1; lane < used && lanes[lane].end > start; lane++)
        ;
    if (lane >= head->lanes) {
        lane = head->lanes - 1;
        head->crowded++;
    }
    lanes[lane].start = start;
    lanes[lane].end = end;
    lanes[lane].id = id;
    head->used = lane + 1 > used ? lane + 1 : used;
    return lane;
}

static PyObject *nest(PyObject *self, PyObject *args)
{
    Py_buffer track, start, length, id, depth, parent, state;
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*w*", &track, &start, &length, &id, &depth, &parent, &state))
        return NULL;
    int64_t n = track.len / 8;
    Head *head = state.buf;
    if (start.len != n * 8 || length.len != n * 8 || id.len != n * 8 || depth.len != n * 4 || parent.len != n * 8 ||
        state.len < (Py_ssize_t)sizeof(Head) || head->lanes < 1 || head->used < 0 || head->used > head->lanes ||
        state.len != (Py_ssize_t)(sizeof(Head) + (size_t)head->lanes * sizeof(Lane))) {
        PyErr_SetString(PyExc_ValueError, "nest: buffers of unequal length");
        goto done;
    }
    Lane *lanes = (Lane *)(head + 1);
    const int64_t *t = track.buf, *s = start.buf, *d = length.buf, *k = id.buf;
    int32_t *lane = depth.buf;
    int64_t *up = parent.buf;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < n; i++) {
        if (t[i] != head->track) {
            head->track = t[i];
            head->used = 0;
        }
        lane[i] = (int32_t)place(head, lanes, s[i], s[i] + d[i], k[i], &up[i]);
    }
    Py_END_ALLOW_THREADS
    result = Py_None;
    Py_INCREF(result);
done:
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&length);
    PyBuffer_Release(&id);
    PyBuffer_Release(&depth);
    PyBuffer_Release(&parent);
    PyBuffer_Release(&state);
    return result;
}

static PyMethodDef methods[] = {{"nest", nest, METH_VARARGS, "Place spans in lanes."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_nest", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__nest(void)
{
    return PyModule_Create(&module);
}
