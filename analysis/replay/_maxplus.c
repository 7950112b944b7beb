/* A max-plus graph, forward and back: see maxplus.py, which is the same in Python and says what it means. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* 0: done; 1: an edge comes from a node that is not before its own */
static int pass(int64_t n, int64_t m, const int64_t *first, const int32_t *from, const int64_t *lag,
                const int64_t *rest, int64_t *time)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t begin = first[i], end = first[i + 1], latest = 0;
        if (begin < 0 || end < begin || end > m)
            return 1;
        for (int64_t e = begin; e < end; e++) {
            if (from[e] < 0 || from[e] >= i)
                return 1;
            int64_t reached = time[from[e]] + lag[e];
            if (e == begin || reached > latest)
                latest = reached;
        }
        time[i] = latest + rest[i];
    }
    return 0;
}

static PyObject *solve(PyObject *self, PyObject *args)
{
    Py_buffer first, from, lag, rest, time;
    PyObject *result = NULL;
    int wrong;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*", &first, &from, &lag, &rest, &time))
        return NULL;
    int64_t n = time.len / 8, m = lag.len / 8;
    if (first.len != (n + 1) * 8 || from.len != m * 4 || lag.len != m * 8 || rest.len != n * 8) {
        PyErr_SetString(PyExc_ValueError, "solve: buffers of unequal length");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    wrong = pass(n, m, first.buf, from.buf, lag.buf, rest.buf, time.buf);
    Py_END_ALLOW_THREADS
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, "solve: an edge does not lead forward");
        goto done;
    }
    result = Py_None;
    Py_INCREF(result);
done:
    PyBuffer_Release(&first);
    PyBuffer_Release(&from);
    PyBuffer_Release(&lag);
    PyBuffer_Release(&rest);
    PyBuffer_Release(&time);
    return result;
}

/* how many nodes it is from the last one back; -1: an edge does not lead forward */
static int64_t back(int64_t m, const int64_t *first, const int32_t *from, const int64_t *lag, const int64_t *rest,
                    const int64_t *time, int64_t node, int64_t until, int64_t *nodes, int64_t *edges)
{
    int64_t count = 0;
    while (node >= 0 && time[node] > until) {
        int64_t begin = first[node], end = first[node + 1], edge = -1;
        if (begin < 0 || end < begin || end > m)
            return -1;
        for (int64_t e = end - 1; e >= begin && edge < 0; e--) {
            if (from[e] < 0 || from[e] >= node)
                return -1;
            if (time[from[e]] + lag[e] + rest[node] == time[node])
                edge = e;
        }
        nodes[count] = node;
        edges[count++] = edge;
        node = edge < 0 ? -1 : from[edge];
    }
    return count;
}

static PyObject *walk(PyObject *self, PyObject *args)
{
    Py_buffer first, from, lag, rest, time, nodes, edges;
    PyObject *result = NULL;
    long long last, until;
    int64_t count;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*LLw*w*", &first, &from, &lag, &rest, &time, &last, &until, &nodes, &edges))
        return NULL;
    int64_t n = time.len / 8, m = lag.len / 8;
    if (first.len != (n + 1) * 8 || from.len != m * 4 || lag.len != m * 8 || rest.len != n * 8 || last >= n ||
        nodes.len < (last + 1) * 8 || edges.len < (last + 1) * 8) {
        PyErr_SetString(PyExc_ValueError, "walk: buffers of unequal length");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    count = back(m, first.buf, from.buf, lag.buf, rest.buf, time.buf, last, until, nodes.buf, edges.buf);
    Py_END_ALLOW_THREADS
    if (count < 0)
        PyErr_SetString(PyExc_ValueError, "walk: an edge does not lead forward");
    else
        result = PyLong_FromLongLong(count);
done:
    PyBuffer_Release(&first);
    PyBuffer_Release(&from);
    PyBuffer_Release(&lag);
    PyBuffer_Release(&rest);
    PyBuffer_Release(&time);
    PyBuffer_Release(&nodes);
    PyBuffer_Release(&edges);
    return result;
}

static PyMethodDef methods[] = {
    {"solve", solve, METH_VARARGS, "Times of all nodes."},
    {"walk", walk, METH_VARARGS, "From a node back along the edges that decided."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_maxplus", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__maxplus(void)
{
    return PyModule_Create(&module);
}
