/* tensors.c -- Python's tensors and torch's handles
 *
 * A Python tensor holds an at::Tensor right behind its object header, and a handle of the C shim is
 * a pointer to an at::Tensor: so the address behind the header is a borrowed handle. That is no
 * promise of torch's, hence the check: the pointer found there must be the one that the tensor
 * itself reports (`_cdata`), for every example.
 */
#include "extension.h"

#include <string.h>

typedef PyObject *(*wrap_function)(torch_handle handle);
static wrap_function wrap;

torch_handle tensors_handle(PyObject *tensor)
{
    return (torch_handle)(void *)((char *)tensor + sizeof(PyObject));
}

static bool same_impl(PyObject *tensor, const void *impl)
{
    const void *found;
    memcpy(&found, (const void *)tensors_handle(tensor), sizeof found);
    return found == impl;
}

PyObject *tensors_wrap(torch_handle handle)
{
    PyObject *tensor = wrap(handle);
    shim.aoti_torch_delete_tensor_object(handle);
    return tensor;
}

bool tensors_is_exact(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    return type == extension.tensor_type || type == extension.parameter_type;
}

bool tensors_is_tensor(PyObject *object)
{
    if (tensors_is_exact(object)) return true;
    int is = PyObject_IsInstance(object, extension.tensor_type);
    if (is < 0) PyErr_Clear();
    return is > 0;
}

/* A wrapped handle must be a Python tensor with that very implementation. */
static bool wrap_works(PyObject *tensor)
{
    torch_handle handle = NULL;
    const void *impl;
    if (shim.aoti_torch_new_tensor_handle(tensors_handle(tensor), &handle) != 0) return false;
    memcpy(&impl, (const void *)handle, sizeof impl);
    PyObject *again = tensors_wrap(handle);
    bool works = again && tensors_is_exact(again) && same_impl(again, impl);
    Py_XDECREF(again);
    PyErr_Clear();
    return works;
}

static bool read_example(PyObject *item, wick_torch_example *out, PyObject **tensor)
{
    unsigned long long impl, keys, storage;
    int kind, requires_grad, shared;
    if (!PyArg_ParseTuple(item, "OKKipKpI", tensor, &impl, &keys, &kind, &requires_grad, &storage,
                          &shared, &out->version))
        return false;
    memcpy(&out->impl, &impl, sizeof out->impl);
    memcpy(&out->storage, &storage, sizeof out->storage);
    out->keys = keys;
    out->kind = (wick_torch_tensor_kind)kind;
    out->requires_grad = requires_grad != 0;
    out->shared = shared != 0;
    return true;
}

bool tensors_learn(PyObject *examples)
{
    enum { MOST = 32 };
    wick_torch_example known[MOST];
    Py_ssize_t n = PyList_Size(examples);
    PyObject *tensor = NULL;
    void *symbol = torch_shim_symbol("_Z16THPVariable_WrapRKN2at10TensorBaseE");

    memcpy(&wrap, &symbol, sizeof wrap);
    if (!symbol || n <= 0 || n > MOST) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!read_example(PyList_GetItem(examples, i), &known[i], &tensor)) {
            PyErr_Clear();
            return false;
        }
        if (!same_impl(tensor, known[i].impl)) return false;
    }
    if (!wick_torch_learn(known, (int)n)) return false;
    return tensors_is_exact(tensor) && wrap_works(tensor);
}
