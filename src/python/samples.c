/* samples.c -- sizes that fit a signature (src/signature/sample.c), for `wick check` */
#include "extension.h"

#include <string.h>

static PyObject *size_of(const wick_sample *sample, const wick_dim *dim, int i)
{
    if (!dim->leading) return PyLong_FromLongLong(sample->dims[i]);
    PyObject *tuple = PyTuple_New(sample->n_leading[i]);
    for (int k = 0; tuple && k < sample->n_leading[i]; k++) {
        PyObject *number = PyLong_FromLongLong(sample->leading[i][k]);
        if (!number || PyTuple_SetItem(tuple, k, number) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *dims_of(const wick_signature *sig, const wick_sample *sample)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < sig->n_dims; i++) {
        PyObject *size = size_of(sample, &sig->dims[i], i);
        if (!size || PyDict_SetItemString(dict, sig->dims[i].name, size) < 0) Py_CLEAR(dict);
        Py_XDECREF(size);
    }
    return dict;
}

/* The kind of that name, or -1. */
static int kind_of(const char *word)
{
    static const char *const kinds[] = {"random", "empty", "one", "odd", "large"};
    for (int i = 0; i < WICK_COUNT(kinds); i++)
        if (!strcmp(word, kinds[i])) return i;
    return -1;
}

PyObject *sample_dims(PyObject *module, PyObject *args)
{
    const char *ns, *name, *word;
    unsigned long long seed;
    long long budget;
    wick_arena arena = {0};
    wick_sample sample;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "sssKL", &ns, &name, &word, &seed, &budget)) return NULL;
    const wick_op *op = wick_op_find(ns, name);
    const wick_op_def *def = op ? wick_op_current(op) : NULL;
    if (!def || kind_of(word) < 0) {
        PyErr_Format(PyExc_LookupError, "no operator %s in %s, or no kind %s", name, ns, word);
        return NULL;
    }
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_signature_sample(&ctx, &arena, def->sig, (wick_sample_kind)kind_of(word),
                                          seed, budget, &sample);
    PyObject *result = s == WICK_OK ? dims_of(def->sig, &sample) : raise_status(&ctx, s);
    wick_arena_free(&arena);
    wick_ctx_deinit(&ctx);
    return result;
}
