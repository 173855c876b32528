/* plan.c -- what a call with chosen sizes takes, returns and moves
 *
 * For those who make calls up: a benchmark knows dims and types, and asks for shapes and bytes. All
 * of it is the signature's own arithmetic; Python only asks.
 */
#include "extension.h"

#include <string.h>

/* The signature of a loaded operator; NULL with an exception set. */
static const wick_signature *signature_of(const char *ns, const char *name)
{
    const wick_op *op = wick_op_find(ns, name);
    const wick_op_def *def = op ? wick_op_current(op) : NULL;
    if (!def) PyErr_Format(PyExc_LookupError, "no operator %s in namespace %s", name, ns);
    return def ? def->sig : NULL;
}

/* Appends an owned item; false with an exception set, when the item is NULL as well. */
static bool append(PyObject *list, PyObject *item)
{
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

typedef struct plan {
    const wick_signature *sig;
    wick_binding binding;
    int64_t leading[WICK_MAX_NAMED][WICK_MAX_RANK];
    wick_dtype types[WICK_MAX_TYPEVARS];
    wick_input_shape inputs[WICK_MAX_PARAMS];
    int64_t sizes[WICK_MAX_PARAMS][WICK_MAX_RANK];
} plan;

/* A tuple of leading dims. */
static bool read_leading(plan *p, int i, PyObject *value)
{
    const char *name = p->sig->dims[i].name;
    Py_ssize_t n = PyTuple_Check(value) ? PyTuple_Size(value) : -1;
    if (n < 0 || n > WICK_MAX_RANK) {
        PyErr_Format(PyExc_TypeError, "*%s takes a tuple of at most %d sizes", name, WICK_MAX_RANK);
        return false;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        p->leading[i][k] = PyLong_AsLongLong(PyTuple_GetItem(value, k));
        if (PyErr_Occurred()) return false;
    }
    p->binding.leading[i] = p->leading[i];
    p->binding.n_leading[i] = (int)n;
    p->binding.value[i] = wick_shape_numel((int)n, p->leading[i]);
    return true;
}

static bool read_dims(plan *p, PyObject *dims)
{
    for (int i = 0; i < p->sig->n_dims; i++) {
        const wick_dim *dim = &p->sig->dims[i];
        PyObject *value = PyDict_GetItemString(dims, dim->name); /* borrowed */
        if (!value) {
            PyErr_Format(PyExc_KeyError, "%s: the dim %s has no size", p->sig->name, dim->name);
            return false;
        }
        p->binding.bound[i] = true;
        if (dim->leading && !read_leading(p, i, value)) return false;
        if (!dim->leading) p->binding.value[i] = PyLong_AsLongLong(value);
        if (PyErr_Occurred()) return false;
        if (p->binding.value[i] < 0) {
            PyErr_Format(PyExc_ValueError, "%s: the dim %s is negative, or too large", p->sig->name,
                         dim->name);
            return false;
        }
    }
    return true;
}

static bool is_listed(const wick_variable *v, wick_dtype type)
{
    for (int i = 0; i < v->n_types; i++) {
        if (v->types[i] == type) return true;
    }
    return false;
}

static bool read_types(plan *p, PyObject *types)
{
    for (int i = 0; i < p->sig->n_variables; i++) {
        const wick_variable *v = &p->sig->variables[i];
        PyObject *value = PyDict_GetItemString(types, v->name);
        const char *word = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
        bool reserved;
        if (value && !word) return false;
        p->types[i] = word ? wick_dtype_parse(word, strlen(word), &reserved) : WICK_NONE;
        if (is_listed(v, p->types[i])) continue;
        PyErr_Format(PyExc_ValueError, "%s: %s is not a type of %s", p->sig->name,
                     word ? word : "nothing", v->name);
        return false;
    }
    return true;
}

/* Shapes of the inputs; those named in `absent` (a set or a tuple) are left out. Then the whole is
 * solved as a call would be, so that what is handed out fits. */
static wick_status place_inputs(wick_ctx *ctx, plan *p, const bool *absent)
{
    wick_binding solved;
    for (int i = 0; i < p->sig->n_inputs; i++) {
        const wick_param *param = &p->sig->inputs[i];
        wick_input_shape *in = &p->inputs[i];
        in->present = !absent[i];
        in->size = p->sizes[i];
        if (param->gives_dim >= 0) in->number = p->binding.value[param->gives_dim];
        if (param->kind > WICK_KIND_SHAPE || absent[i]) continue;
        WICK_TRY(wick_signature_shape(ctx, p->sig, param, &p->binding, &in->dim, p->sizes[i]));
    }
    return wick_signature_bind(ctx, p->sig, p->inputs, &solved);
}

static PyObject *shape_tuple(int dim, const int64_t *size)
{
    PyObject *tuple = PyTuple_New(dim);
    for (int i = 0; tuple && i < dim; i++) {
        PyObject *number = PyLong_FromLongLong(size[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/* (shape, type) of a tensor; a `shape` input has no type. */
static PyObject *place_item(const plan *p, const wick_param *param, int dim, const int64_t *size)
{
    const char *type = NULL;
    if (param->kind == WICK_KIND_TENSOR)
        type = wick_dtype_name((int)wick_elem_dtype(&param->elem, p->types));
    return Py_BuildValue("(Nz)", shape_tuple(dim, size), type);
}

static PyObject *list_inputs(const plan *p)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < p->sig->n_inputs; i++) {
        const wick_input_shape *in = &p->inputs[i];
        bool sized = p->sig->inputs[i].kind <= WICK_KIND_SHAPE && in->present;
        PyObject *item =
            sized ? place_item(p, &p->sig->inputs[i], in->dim, in->size) : Py_BuildValue("");
        if (!append(list, item)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *list_outputs(wick_ctx *ctx, const plan *p)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < p->sig->n_outputs; i++) {
        const wick_param *param = &p->sig->outputs[i];
        int64_t size[WICK_MAX_RANK];
        int dim = 0;
        PyObject *item = NULL;
        if (param->kind != WICK_KIND_TENSOR) {
            item = Py_BuildValue("");
        } else {
            wick_status s = wick_signature_shape(ctx, p->sig, param, &p->binding, &dim, size);
            if (s == WICK_OK)
                item = place_item(p, param, dim, size);
            else
                raise_status(ctx, s);
        }
        if (!append(list, item)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *make_plan(wick_ctx *ctx, plan *p, const bool *absent)
{
    wick_traffic traffic;
    wick_status s = place_inputs(ctx, p, absent);
    if (s == WICK_OK)
        s = wick_signature_traffic(ctx, p->sig, &p->binding, p->inputs, p->types, &traffic);
    if (s != WICK_OK) return raise_status(ctx, s);
    PyObject *outputs = list_outputs(ctx, p);
    if (!outputs) return NULL;
    return Py_BuildValue("(NNLL)", list_inputs(p), outputs, (long long)traffic.read_bytes,
                         (long long)traffic.written_bytes);
}

static bool read_absent(const wick_signature *sig, PyObject *names, bool *absent)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        PyObject *name = PyUnicode_FromString(sig->inputs[i].name);
        int found = name ? PySequence_Contains(names, name) : -1;
        Py_XDECREF(name);
        if (found < 0) return false;
        absent[i] = found > 0;
    }
    return true;
}

PyObject *plan_call(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *dims, *types, *names, *result = NULL;
    bool absent[WICK_MAX_PARAMS];
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssOOO", &ns, &name, &dims, &types, &names)) return NULL;
    if (!PyDict_Check(dims) || !PyDict_Check(types)) {
        PyErr_SetString(PyExc_TypeError, "plan: dims and types are dicts");
        return NULL;
    }
    plan *p = wick_calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    wick_ctx_init(&ctx, NULL);
    p->sig = signature_of(ns, name);
    if (p->sig && read_dims(p, dims) && read_types(p, types) && read_absent(p->sig, names, absent))
        result = make_plan(&ctx, p, absent);
    wick_ctx_deinit(&ctx);
    wick_free(p);
    return result;
}
