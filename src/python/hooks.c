/* hooks.c -- calls that the bridge leaves to Python: gradients, the way below autograd, vmap
 *
 * The kernels (src/torch/boxed.c) hold torch's stack and no GIL. Here the stack's arguments become
 * Python objects, a function of `wick._calls` makes the call, and its results become the stack's.
 * Everything the stack owned is given back on the way, whether that works or not.
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

/* The keyword-only want_x of optional outputs follow the inputs on the stack. */
static int n_arguments(const wick_signature *sig)
{
    int n = sig->n_inputs;
    for (int i = 0; i < sig->n_outputs; i++)
        n += sig->outputs[i].optional;
    return n;
}

/* Consumes the whole stack even when an object cannot be made. */
static PyObject *wrap_arguments(const wick_signature *sig, const torch_ivalue *stack)
{
    int n = n_arguments(sig);
    PyObject *args = PyTuple_New(n);
    bool failed = !args;
    for (int i = 0; i < n; i++) {
        bool input = i < sig->n_inputs;
        PyObject *object = input ? wrap_argument(&sig->inputs[i], stack[i])
                                 : PyBool_FromLong((long)(stack[i] & 0xff));
        failed = failed || !object;
        if (args && object)
            PyTuple_SetItem(args, i, object);
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

static void release_result(const wick_param *p, torch_ivalue v)
{
    if (p->kind == WICK_KIND_TENSOR)
        Py_XDECREF(p->optional ? wrap_box(v) : wrap_defined(handle_at(v)));
}

/* One output: the object itself. Several: a tuple of them. */
static bool unwrap_results(const wick_signature *sig, PyObject *results, torch_ivalue *stack)
{
    int n = sig->n_outputs, done = 0;
    if (n == 0) return true;
    if (n == 1) return unwrap_result(&sig->outputs[0], results, &stack[0]);
    if (PyTuple_Check(results) && PyTuple_Size(results) == n)
        while (done < n &&
               unwrap_result(&sig->outputs[done], PyTuple_GetItem(results, done), &stack[done]))
            done++;
    if (done == n) return true;
    for (int i = 0; i < done; i++)
        release_result(&sig->outputs[i], stack[i]);
    return false;
}

/* ---- exceptions ---- */

static _Thread_local PyObject *pending; /* what a hook failed with, until it is raised; owned */

/* The words for the kernel, the exception itself for raise_pending. */
static void keep_exception(const char *name)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace) PyException_SetTraceback(value, trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (!words) PyErr_Clear();
    wick_boxed_fail(words ? words : name);
    Py_XDECREF(pending);
    pending = value;
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(trace);
}

bool raise_pending(void)
{
    if (!pending) return false;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(extension.helpers, "raise_next", "O", pending);
    bool arranged = done != NULL;
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    Py_CLEAR(pending);
    PyGILState_Release(gil);
    return arranged;
}

/* ---- calls ---- */

bool ask_python(wick_registration *r, wick_question question, torch_ivalue *stack)
{
    static const char *const functions[] = {"differentiate", "below", "batched"};
    PyGILState_STATE gil = PyGILState_Ensure();
    const wick_signature *sig = wick_registration_signature(r);
    const wick_op *op = wick_registration_op(r);
    PyObject *args = wrap_arguments(sig, stack), *results = NULL;

    if (args)
        results = PyObject_CallMethod(extension.helpers, functions[question], "ssO", op->ns,
                                      op->name, args);
    bool ok = results && unwrap_results(sig, results, stack);
    if (!ok) keep_exception(op->name);
    Py_XDECREF(args);
    Py_XDECREF(results);
    PyGILState_Release(gil);
    return ok;
}
