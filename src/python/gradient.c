/* gradient.c -- a call that needs a gradient is handed to Python, which owns autograd
 *
 * The gate (src/torch/boxed.c) holds torch's stack and no GIL. Here the stack's arguments become
 * Python objects, Python's `wick._calls.differentiate` makes the call, and its results become the
 * stack's. Everything the stack owned is given back on the way, whether that works or not.
 */
#include "extension.h"

#include <string.h>

static torch_handle handle_at(torch_ivalue v)
{
    torch_handle h;
    memcpy(&h, &v, sizeof h);
    return h;
}

static PyObject *wrap_defined(torch_handle handle)
{
    bool defined = false;
    shim.aoti_torch_is_defined(handle, &defined);
    if (defined) return tensors_wrap(handle);
    shim.aoti_torch_delete_tensor_object(handle);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *wrap_box(torch_ivalue v)
{
    torch_ivalue *box;
    memcpy(&box, &v, sizeof box);
    if (!box) Py_RETURN_NONE;
    PyObject *tensor = wrap_defined(handle_at(*box));
    torch_box_free(box);
    return tensor;
}

static PyObject *wrap_string(torch_ivalue v)
{
    torch_string_handle string;
    const char *text = "";
    memcpy(&string, &v, sizeof string);
    shim.torch_string_c_str(string, &text);
    PyObject *result = PyUnicode_FromString(text);
    shim.torch_delete_string(string);
    return result;
}

static PyObject *wrap_shape(torch_ivalue v)
{
    torch_list_handle list;
    size_t n = 0;
    memcpy(&list, &v, sizeof list);
    shim.torch_list_size(list, &n);
    PyObject *result = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; result && i < n; i++) {
        torch_ivalue item = 0;
        shim.torch_list_get_item(list, i, &item);
        PyList_SetItem(result, (Py_ssize_t)i, PyLong_FromLongLong((long long)item));
    }
    shim.torch_delete_list(list);
    return result;
}

/* A new object for an argument, which is consumed. */
static PyObject *wrap_argument(const wick_param *p, torch_ivalue v)
{
    double f;
    switch (p->kind) {
    case WICK_KIND_TENSOR: return p->optional ? wrap_box(v) : wrap_defined(handle_at(v));
    case WICK_KIND_SHAPE: return wrap_shape(v);
    case WICK_KIND_INT: return PyLong_FromLongLong((long long)v);
    case WICK_KIND_FLOAT: memcpy(&f, &v, sizeof f); return PyFloat_FromDouble(f);
    case WICK_KIND_BOOL: return PyBool_FromLong((long)(v & 0xff));
    default: return wrap_string(v);
    }
}

/* Consumes the whole stack even when an object cannot be made. */
static PyObject *wrap_arguments(const wick_signature *sig, const torch_ivalue *stack,
                                uint64_t n_args)
{
    PyObject *args = PyTuple_New((Py_ssize_t)n_args);
    bool failed = !args;
    for (uint64_t i = 0; i < n_args; i++) {
        bool input = i < (uint64_t)sig->n_inputs;
        PyObject *object = input ? wrap_argument(&sig->inputs[i], stack[i])
                                 : PyBool_FromLong((long)(stack[i] & 0xff));
        failed = failed || !object;
        if (args && object)
            PyTuple_SetItem(args, (Py_ssize_t)i, object);
        else
            Py_XDECREF(object);
    }
    if (failed) Py_CLEAR(args);
    return args;
}

static bool unwrap_result(const wick_param *p, PyObject *object, torch_ivalue *out)
{
    torch_handle handle = NULL;
    double f;
    *out = 0;
    switch (p->kind) {
    case WICK_KIND_TENSOR:
        if (object == Py_None) return p->optional;
        if (!tensors_is_tensor(object)) return false;
        if (shim.aoti_torch_new_tensor_handle(tensors_handle(object), &handle) != 0) return false;
        memcpy(out, &handle, sizeof handle);
        if (p->optional) {
            torch_ivalue *box = torch_box_new(*out);
            memcpy(out, &box, sizeof box);
        }
        return true;
    case WICK_KIND_FLOAT:
        f = PyFloat_AsDouble(object);
        memcpy(out, &f, sizeof f);
        return true;
    default: *out = (torch_ivalue)PyLong_AsLongLong(object); return true;
    }
}

/* differentiate returns a tuple with one entry per output. */
static bool unwrap_results(const wick_signature *sig, PyObject *results, torch_ivalue *stack)
{
    if (!PyTuple_Check(results) || PyTuple_Size(results) != sig->n_outputs) return false;
    for (int i = 0; i < sig->n_outputs; i++)
        if (!unwrap_result(&sig->outputs[i], PyTuple_GetItem(results, i), &stack[i])) return false;
    return true;
}

static void keep_exception(const char *name)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (!words) PyErr_Clear();
    wick_boxed_fail(words ? words : name);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

bool gradient_hook(wick_registration *r, torch_ivalue *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_results;
    PyGILState_STATE gil = PyGILState_Ensure();
    const wick_signature *sig = wick_registration_signature(r);
    const wick_op *op = wick_registration_op(r);
    PyObject *args = wrap_arguments(sig, stack, n_args), *results = NULL;

    if (args)
        results =
            PyObject_CallMethod(extension.helpers, "differentiate", "ssO", op->ns, op->name, args);
    bool ok = results && unwrap_results(sig, results, stack);
    if (!ok) keep_exception(op->name);
    Py_XDECREF(args);
    Py_XDECREF(results);
    PyGILState_Release(gil);
    return ok;
}
