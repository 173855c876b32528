/* describe.c -- a signature as Python's own data, and the outcome of a call that is not made
 *
 * What torch wants to know of an operator beyond its schema (shapes under torch.compile, batching,
 * sharding, autocast) is worked out in Python from these tables; Python never reads a signature's
 * text.
 */
#include "extension.h"

#include <string.h>

/* Puts a new reference to the end of a list; both may be NULL. */
static bool append(PyObject *list, PyObject *item)
{
    bool done = list && item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

/* ---- describe ---- */

static PyObject *names_of(const wick_term *term)
{
    PyObject *names = PyTuple_New(term->n_names);
    for (int i = 0; names && i < term->n_names; i++)
        PyTuple_SetItem(names, i, PyLong_FromLong(term->names[i]));
    return names;
}

/* [(coefficient, (dim, ...)), ...]: the terms of a sum. */
static PyObject *size_of(const wick_size *size)
{
    PyObject *terms = PyList_New(0);
    for (int i = 0; terms && i < size->n_terms; i++)
        if (!append(terms, Py_BuildValue("(LN)", (long long)size->terms[i].coefficient,
                                         names_of(&size->terms[i]))))
            Py_CLEAR(terms);
    return terms;
}

static PyObject *sizes_of(const wick_param *p)
{
    PyObject *sizes = PyList_New(0);
    bool sized = p->kind == WICK_KIND_TENSOR || p->kind == WICK_KIND_SHAPE;
    for (int i = 0; sizes && sized && i < p->n_sizes; i++)
        if (!append(sizes, size_of(&p->sizes[i]))) Py_CLEAR(sizes);
    return sizes;
}

/* The element types that a tensor may have, as signatures spell them. */
static PyObject *types_of(const wick_signature *sig, const wick_param *p)
{
    PyObject *types = PyList_New(0);
    if (!types || p->kind != WICK_KIND_TENSOR) return types;
    if (p->elem.kind == WICK_ELEM_FIXED) {
        if (!append(types, PyUnicode_FromString(wick_dtype_name((int)p->elem.dtype))))
            Py_CLEAR(types);
        return types;
    }
    const wick_variable *v = &sig->variables[p->elem.variable];
    for (int i = 0; types && i < v->n_types; i++) {
        int type = (int)(p->elem.kind == WICK_ELEM_VARIABLE ? v->types[i]
                                                            : wick_dtype_accumulate(v->types[i]));
        if (!append(types, PyUnicode_FromString(wick_dtype_name(type)))) Py_CLEAR(types);
    }
    return types;
}

static PyObject *default_of(const wick_param *param)
{
    switch (param->kind) {
    case WICK_KIND_INT: return PyLong_FromLongLong(param->default_int);
    case WICK_KIND_FLOAT: return PyFloat_FromDouble(param->default_float);
    case WICK_KIND_BOOL: return PyBool_FromLong(param->default_int != 0);
    case WICK_KIND_STR: return PyUnicode_FromString(param->default_str);
    case WICK_KIND_CHOICE: return PyUnicode_FromString(param->choices[param->default_int]);
    default: Py_RETURN_NONE;
    }
}

static PyObject *choices_of(const wick_param *param)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < param->n_choices; i++) {
        if (!append(list, PyUnicode_FromString(param->choices[i]))) Py_CLEAR(list);
    }
    return list;
}

/* The keys are the fields of wick._signature.Param; without a default there is no `default`. */
static PyObject *param_of(const wick_signature *sig, const wick_param *p)
{
    static const char *const kinds[] = {"tensor", "shape", "int", "float", "bool", "str", "choice"};
    bool tensor = p->kind == WICK_KIND_TENSOR;
    bool sized = tensor || p->kind == WICK_KIND_SHAPE;
    bool free = tensor && p->elem.kind == WICK_ELEM_VARIABLE;
    int gives = p->kind == WICK_KIND_INT ? p->gives_dim : -1;
    wick_text type = {0};
    wick_param_print_type(&type, sig, p);
    PyObject *dict = Py_BuildValue(
        "{s:s, s:s, s:s, s:O, s:O, s:N, s:i, s:i, s:N, s:i, s:z, s:N}", "name", p->name, "kind",
        kinds[p->kind], "type", wick_text_str(&type), "optional", p->optional ? Py_True : Py_False,
        "in_place", p->in_place ? Py_True : Py_False, "types", types_of(sig, p), "variable",
        free ? p->elem.variable : -1, "leading", sized ? p->leading : -1, "sizes", sizes_of(p),
        "gives_dim", gives, "dim", gives >= 0 ? sig->dims[gives].name : NULL, "choices",
        choices_of(p));
    PyObject *value = dict && p->has_default ? default_of(p) : NULL;
    if (dict && p->has_default && (!value || PyDict_SetItemString(dict, "default", value) < 0))
        Py_CLEAR(dict);
    Py_XDECREF(value);
    return dict;
}

static PyObject *params_of(const wick_signature *sig, const wick_param *params, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++)
        if (!append(list, param_of(sig, &params[i]))) Py_CLEAR(list);
    return list;
}

static PyObject *dims_of(const wick_signature *sig)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < sig->n_dims; i++) {
        const wick_dim *d = &sig->dims[i];
        if (!append(list, Py_BuildValue("{s:s, s:O, s:O, s:i}", "name", d->name, "leading",
                                        d->leading ? Py_True : Py_False, "batch",
                                        d->batch ? Py_True : Py_False, "from_int", d->from_int)))
            Py_CLEAR(list);
    }
    return list;
}

/* The operator of (namespace, name), as it is now; NULL with an exception set. */
static const wick_op *find_op(const char *ns, const char *name)
{
    const wick_op *op = wick_op_find(ns, name);
    if (!op || !wick_op_current(op))
        PyErr_Format(PyExc_RuntimeError, "no operator %s in namespace %s", name, ns);
    return op && wick_op_current(op) ? op : NULL;
}

PyObject *describe(PyObject *module, PyObject *args)
{
    static const char *const rules[] = {"keep", "f32", "follow"};
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    const wick_op *op = find_op(ns, name);
    if (!op) return NULL;
    const wick_signature *sig = wick_op_current(op)->sig;
    return Py_BuildValue("{s:N, s:N, s:N, s:s}", "inputs",
                         params_of(sig, sig->inputs, sig->n_inputs), "outputs",
                         params_of(sig, sig->outputs, sig->n_outputs), "dims", dims_of(sig),
                         "autocast", rules[sig->autocast]);
}

static PyObject *describe_variables(const wick_signature *sig)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < sig->n_variables; i++) {
        PyObject *types = PyList_New(0);
        for (int k = 0; types && k < sig->variables[i].n_types; k++) {
            PyObject *name = PyUnicode_FromString(wick_dtype_name((int)sig->variables[i].types[k]));
            if (!append(types, name)) Py_CLEAR(types);
        }
        if (!append(list, Py_BuildValue("(sN)", sig->variables[i].name, types))) Py_CLEAR(list);
    }
    return list;
}

PyObject *parameters(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    const wick_op *op = find_op(ns, name);
    if (!op) return NULL;
    const wick_signature *sig = wick_op_current(op)->sig;
    PyObject *dims = PyList_New(0);
    for (int i = 0; dims && i < sig->n_dims; i++) {
        PyObject *leading = sig->dims[i].leading ? Py_True : Py_False;
        if (!append(dims, Py_BuildValue("(sO)", sig->dims[i].name, leading))) Py_CLEAR(dims);
    }
    return Py_BuildValue("{s:N, s:N, s:N, s:N, s:N}", "dims", dims, "variables",
                         describe_variables(sig), "inputs",
                         params_of(sig, sig->inputs, sig->n_inputs), "outputs",
                         params_of(sig, sig->outputs, sig->n_outputs), "scratch",
                         params_of(sig, sig->scratch, sig->n_scratch));
}

/* ---- gradient ---- */

PyObject *gradient(PyObject *module, PyObject *args)
{
    static const char *const sources[] = {"gradient", "input", "output", "shape", "size"};
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    const wick_op *op = wick_op_find(ns, name);
    const wick_op_def *def = op ? wick_op_current(op) : NULL;
    if (!def || !def->gradient) Py_RETURN_NONE;
    const wick_signature *backward = wick_op_current(def->backward)->sig;
    PyObject *arguments = PyList_New(0), *gives = PyList_New(0);
    for (int i = 0; arguments && i < backward->n_inputs; i++) {
        const wick_gradient_argument *a = &def->gradient->arguments[i];
        if (!append(arguments, Py_BuildValue("(siiO)", sources[a->source], a->index, a->axis,
                                             backward->inputs[i].optional ? Py_True : Py_False)))
            Py_CLEAR(arguments);
    }
    for (int i = 0; gives && i < backward->n_outputs; i++)
        if (!append(gives, Py_BuildValue("(iO)", def->gradient->gives[i],
                                         backward->outputs[i].optional ? Py_True : Py_False)))
            Py_CLEAR(gives);
    if (arguments && gives) return Py_BuildValue("(sNN)", def->backward->name, arguments, gives);
    Py_XDECREF(arguments);
    Py_XDECREF(gives);
    return NULL;
}

/* ---- infer ---- */

/* Sizes of all inputs together. */
enum { MOST_SIZES = 1024 };

typedef struct guess {
    wick_value args[WICK_MAX_PARAMS];
    int64_t sizes[MOST_SIZES];
    int n_sizes;
} guess;

static bool read_sizes(guess *g, const char *name, PyObject *sizes, wick_tensor *out)
{
    Py_ssize_t n = PyTuple_Check(sizes) ? PyTuple_Size(sizes) : -1;
    if (n < 0 || n > WICK_MAX_RANK || g->n_sizes + n > MOST_SIZES) {
        PyErr_Format(PyExc_RuntimeError, "%s has %zd dimensions, expected at most %d", name, n,
                     WICK_MAX_RANK);
        return false;
    }
    out->dim = (int32_t)n;
    out->size = &g->sizes[g->n_sizes];
    out->stride = NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        g->sizes[g->n_sizes++] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
    return !PyErr_Occurred();
}

static int device_of(const char *name)
{
    static const char *const names[] = {"cpu", "cuda", "meta"};
    for (int i = 0; i < WICK_COUNT(names); i++)
        if (!strcmp(name, names[i])) return i;
    return WICK_OTHER;
}

/* (element type, device, index, sizes); a type that Wick does not know is the word for it. */
static bool read_description(guess *g, const char *name, PyObject *object, wick_tensor *out)
{
    const char *type, *device;
    int index;
    PyObject *sizes;
    if (!PyArg_ParseTuple(object, "ssiO", &type, &device, &index, &sizes)) return false;
    memset(out, 0, sizeof *out);
    out->dtype = (int32_t)wick_dtype_parse(type, strlen(type), NULL);
    out->handle = (void *)type;
    out->device_type = device_of(device);
    out->device_index = index;
    return read_sizes(g, name, sizes, out);
}

static bool read_value(guess *g, const wick_param *p, PyObject *object, wick_value *out)
{
    out->kind = WICK_VALUE_NONE;
    if (object == Py_None) return true;
    switch (p->kind) {
    case WICK_KIND_TENSOR:
        out->kind = WICK_VALUE_TENSOR;
        return read_description(g, p->name, object, &out->as.tensor);
    case WICK_KIND_SHAPE:
        out->kind = WICK_VALUE_SHAPE;
        return read_sizes(g, p->name, object, &out->as.tensor);
    case WICK_KIND_INT:
        out->kind = WICK_VALUE_INT;
        out->as.i = PyLong_AsLongLong(object);
        break;
    case WICK_KIND_FLOAT:
        out->kind = WICK_VALUE_FLOAT;
        out->as.f = PyFloat_AsDouble(object);
        break;
    case WICK_KIND_BOOL:
        out->kind = WICK_VALUE_BOOL;
        out->as.b = PyObject_IsTrue(object) > 0;
        break;
    default:
        out->kind = WICK_VALUE_STR;
        out->as.s = PyUnicode_AsUTF8AndSize(object, NULL);
        break;
    }
    return !PyErr_Occurred();
}

static const char *given_word(const wick_tensor *tensor) { return tensor->handle; }

static PyObject *inferred_of(const wick_inferred *r, bool sizes)
{
    if (r->dtype == WICK_NONE) Py_RETURN_NONE;
    if (!sizes) return Py_BuildValue("(sO)", wick_dtype_name((int)r->dtype), Py_None);
    PyObject *shape = PyTuple_New(r->dim);
    for (int i = 0; shape && i < r->dim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(r->size[i]));
    return Py_BuildValue("(sN)", wick_dtype_name((int)r->dtype), shape);
}

static PyObject *infer_with(const wick_op *op, PyObject *given, bool sizes, guess *g,
                            wick_inferred *results)
{
    static const wick_host host = {.dtype_name = given_word};
    wick_op_def *def = wick_op_current(op);
    PyObject *list = NULL;
    wick_ctx ctx;
    int device;
    if (PyTuple_Size(given) != def->sig->n_inputs) {
        PyErr_Format(PyExc_RuntimeError, "%s: got %zd arguments, expected %d", op->name,
                     PyTuple_Size(given), def->sig->n_inputs);
        return NULL;
    }
    g->n_sizes = 0;
    for (int i = 0; i < def->sig->n_inputs; i++)
        if (!read_value(g, &def->sig->inputs[i], PyTuple_GetItem(given, i), &g->args[i]))
            return NULL;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_op_infer(&ctx, op, def, &host, g->args, sizes, results, &device);
    list = s == WICK_OK ? PyList_New(0) : raise_status(&ctx, s);
    for (int i = 0; list && i < def->sig->n_outputs; i++)
        if (!append(list, inferred_of(&results[i], sizes))) Py_CLEAR(list);
    wick_ctx_deinit(&ctx);
    return list ? Py_BuildValue("(Ni)", list, device) : NULL;
}

PyObject *infer(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *given, *result;
    int sizes;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssO!p", &ns, &name, &PyTuple_Type, &given, &sizes)) return NULL;
    const wick_op *op = find_op(ns, name);
    if (!op) return NULL;
    guess *g = wick_malloc(sizeof *g);
    wick_inferred *results = wick_calloc(WICK_MAX_PARAMS, sizeof *results);
    result = g && results ? infer_with(op, given, sizes != 0, g, results) : PyErr_NoMemory();
    wick_free(g);
    wick_free(results);
    return result;
}
