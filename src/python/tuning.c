/* tuning.c -- launch choices, for `wick tune`: what there is to choose, and saying what to use
 *
 * Which values a call uses, how sizes are classed and where choices are kept is the runtime's
 * (src/module/tuned.c); Python measures and writes the files.
 */
#include "extension.h"

#include "tuned.h"

#include <string.h>

/* The meaning that has the code of an operator; NULL with an exception set. */
static wick_op_def *find(const char *ns, const char *name)
{
    const wick_op *op = wick_op_find(ns, name);
    wick_op_def *def = op ? wick_op_current(op) : NULL;
    if (!def) PyErr_Format(PyExc_LookupError, "no operator %s in namespace %s", name, ns);
    return def && def->stands_for ? def->stands_for : def;
}

static PyObject *knob_of(const wick_knob *knob)
{
    PyObject *values = PyList_New(0);
    for (int i = 0; values && i < knob->n; i++) {
        PyObject *value = PyLong_FromLongLong(knob->values[i]);
        if (!value || PyList_Append(values, value) < 0) Py_CLEAR(values);
        Py_XDECREF(value);
    }
    return values ? Py_BuildValue("(sN)", knob->name, values) : NULL;
}

PyObject *tuning_choices(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    const wick_op_def *def = find(ns, name);
    if (!def) return NULL;
    if (!def->tune) Py_RETURN_NONE;
    PyObject *knobs = PyList_New(0);
    for (int i = 0; knobs && i < def->tune->n; i++) {
        PyObject *knob = knob_of(&def->tune->knobs[i]);
        if (!knob || PyList_Append(knobs, knob) < 0) Py_CLEAR(knobs);
        Py_XDECREF(knob);
    }
    if (!knobs) return NULL;
    wick_text text = {0};
    wick_tune_print(&text, def->tune);
    PyObject *result = Py_BuildValue("(sN)", wick_text_str(&text), knobs);
    wick_text_free(&text);
    return result;
}

/* `n` numbers out of a sequence; false with an exception set. */
static bool read_numbers(PyObject *sequence, Py_ssize_t n, const char *what, int64_t *out)
{
    Py_ssize_t given = PySequence_Size(sequence);
    if (given >= 0 && given != n)
        PyErr_Format(PyExc_ValueError, "%zd %s, expected %zd", given, what, n);
    if (given != n) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        out[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return false;
    }
    return true;
}

PyObject *tuning_force(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *given;
    int64_t values[WICK_MAX_KNOBS] = {0};
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssO", &ns, &name, &given)) return NULL;
    wick_op_def *def = find(ns, name);
    int n = def && def->tune ? def->tune->n : 0;
    if (!def || (given != Py_None && !read_numbers(given, n, "values", values))) return NULL;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_tuned_force(&ctx, def, given == Py_None ? NULL : values);
    PyObject *done = s == WICK_OK ? Py_None : raise_status(&ctx, s);
    Py_XINCREF(done);
    wick_ctx_deinit(&ctx);
    return done;
}

PyObject *tuning_forget(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    wick_op_def *def = find(ns, name);
    if (!def) return NULL;
    wick_tuned_forget(def);
    Py_RETURN_NONE;
}

PyObject *tuning_path(PyObject *module, PyObject *args)
{
    const char *ns, *name, *device;
    wick_text path = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "sss", &ns, &name, &device)) return NULL;
    const wick_op_def *def = find(ns, name);
    if (!def) return NULL;
    wick_tuned_path(&path, device, ns, def->sig->name);
    PyObject *result =
        path.failed ? PyErr_NoMemory() : PyUnicode_DecodeFSDefault(wick_text_str(&path));
    wick_text_free(&path);
    return result;
}

static bool read_types(PyObject *types, const wick_signature *sig, wick_dtype *out)
{
    Py_ssize_t n = PySequence_Size(types);
    if (n >= 0 && n != sig->n_variables)
        PyErr_Format(PyExc_ValueError, "%zd types, expected %d", n, sig->n_variables);
    if (n != sig->n_variables) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(types, i);
        Py_ssize_t size = 0;
        const char *word = item ? PyUnicode_AsUTF8AndSize(item, &size) : NULL;
        bool reserved;
        out[i] = word ? wick_dtype_parse(word, (size_t)size, &reserved) : WICK_NONE;
        if (word && out[i] == WICK_NONE)
            PyErr_Format(PyExc_ValueError, "%s is not an element type", word);
        Py_XDECREF(item);
        if (out[i] == WICK_NONE) return false;
    }
    return true;
}

PyObject *tuning_key(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *types, *dims;
    wick_dtype chosen[WICK_MAX_TYPEVARS] = {WICK_NONE};
    int64_t sizes[WICK_MAX_NAMED] = {0};
    wick_text key = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "ssOO", &ns, &name, &types, &dims)) return NULL;
    const wick_op_def *def = find(ns, name);
    if (!def || !read_types(types, def->sig, chosen) ||
        !read_numbers(dims, def->sig->n_dims, "dims", sizes))
        return NULL;
    wick_tuned_print_key(&key, def->sig, chosen, sizes);
    PyObject *result = key.failed ? PyErr_NoMemory() : PyUnicode_FromString(wick_text_str(&key));
    wick_text_free(&key);
    return result;
}
