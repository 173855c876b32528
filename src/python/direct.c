/* direct.c -- wick.ops.foo(...): a call with the least in front of it
 *
 *   parse      positions and keywords ⇒ one object per input; TypeError for count and names
 *   convert    objects ⇒ values, and which way to go; TypeError for kinds
 *     fast     plain tensors, no mode, no gradient: straight to src/module, GIL released
 *     gradient the same but for the gradient: straight to autograd (python/wick/_autograd.py)
 *     slow     everything else: torch.ops, which knows about modes, tracing, autograd and the rest
 *
 * What the fast way does not recognise is not refused here: only torch.ops may say no to a tensor
 * as a number, unless that would lose a gradient.
 */
#include "extension.h"

#include <string.h>

typedef enum outcome { FAST, GRADIENT, SLOW, FAILED } outcome;

typedef struct request {
    operator_object *self;
    wick_op_def *def; /* read once: the operator may be loaded again while the call is made */
    const wick_signature *sig;
    PyObject *given[WICK_MAX_PARAMS];  /* per input, borrowed; NULL: left out */
    PyObject *wanted[WICK_MAX_PARAMS]; /* per output, borrowed; NULL: left out */
    PyObject *out;                     /* borrowed; NULL: none */
    wick_value args[WICK_MAX_PARAMS];
    wick_value results[WICK_MAX_PARAMS];
    int64_t room[WICK_MAX_RANK]; /* sizes of shape arguments */
    int n_room;
    const char *differentiable; /* an input that needs a gradient, or NULL */
} request;

static const char *op_name(const request *r) { return r->self->op->name; }

/* ---- parse ---- */

static void fail_count(const request *r, Py_ssize_t n)
{
    wick_text call = {0};
    wick_signature_print_call(&call, r->sig);
    PyErr_Format(PyExc_TypeError, "%s: got %zd arguments, expected at most %d: %s", op_name(r), n,
                 r->sig->n_inputs, wick_text_str(&call));
    wick_text_free(&call);
}

static bool has_tensor_output(const wick_signature *sig)
{
    for (int i = 0; i < sig->n_outputs; i++)
        if (sig->outputs[i].kind == WICK_KIND_TENSOR) return true;
    return false;
}

/* Where a keyword's value belongs, or NULL. */
static PyObject **place_of(request *r, const char *name)
{
    for (int i = 0; i < r->sig->n_inputs; i++)
        if (!strcmp(r->sig->inputs[i].name, name)) return &r->given[i];
    if (!strncmp(name, "want_", 5))
        for (int i = 0; i < r->sig->n_outputs; i++)
            if (r->sig->outputs[i].optional && !strcmp(r->sig->outputs[i].name, name + 5))
                return &r->wanted[i];
    if (!strcmp(name, "out") && has_tensor_output(r->sig)) return &r->out;
    return NULL;
}

static bool parse_keywords(request *r, PyObject *keywords, PyObject *const *values)
{
    Py_ssize_t n = PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(keywords, i), NULL);
        if (!name) return false;
        PyObject **place = place_of(r, name);
        if (!place) {
            wick_text call = {0};
            wick_signature_print_call(&call, r->sig);
            PyErr_Format(PyExc_TypeError, "%s: got an unknown argument %s, expected %s", op_name(r),
                         name, wick_text_str(&call));
            wick_text_free(&call);
            return false;
        }
        if (*place) {
            PyErr_Format(PyExc_TypeError, "%s: got argument %s twice", op_name(r), name);
            return false;
        }
        *place = values[i];
    }
    return true;
}

static bool parse(request *r, PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
    int n = r->sig->n_inputs;
    if (n_args > n) {
        fail_count(r, n_args);
        return false;
    }
    for (int i = 0; i < n; i++)
        r->given[i] = i < n_args ? args[i] : NULL;
    for (int i = 0; i < r->sig->n_outputs; i++)
        r->wanted[i] = NULL;
    r->out = NULL;
    if (keywords && !parse_keywords(r, keywords, args + n_args)) return false;
    if (r->out == Py_None) r->out = NULL;
    for (int i = 0; i < n; i++)
        if (!r->given[i] && !r->sig->inputs[i].has_default) {
            PyErr_Format(PyExc_TypeError, "%s: argument %s is missing", op_name(r),
                         r->sig->inputs[i].name);
            return false;
        }
    return true;
}

/* ---- convert ---- */

static outcome fail_kind(const request *r, const wick_param *p, PyObject *object,
                         const char *wanted)
{
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %s is %S, expected %s", op_name(r), p->name,
                 type ? type : Py_None, wanted);
    Py_XDECREF(type);
    return FAILED;
}

static bool ask_requires_grad(PyObject *object)
{
    PyObject *flag = PyObject_GetAttrString(object, "requires_grad");
    bool yes = flag == Py_True;
    Py_XDECREF(flag);
    PyErr_Clear();
    return yes;
}

/* A tensor for the fast way; SLOW for one that only torch.ops understands. */
static outcome read_tensor(PyObject *object, wick_tensor *out, bool *requires_grad)
{
    if (extension.mode == DIRECT_DISPATCHER || !tensors_is_exact(object)) return SLOW;
    if (extension.mode == DIRECT_DLPACK) {
        *requires_grad = ask_requires_grad(object);
        return dlpack_read(object, out) ? FAST : SLOW;
    }
    return wick_torch_glance(tensors_handle(object), out, requires_grad) ? FAST : SLOW;
}

static outcome convert_tensor(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    bool requires_grad = false;
    r->args[i].kind = WICK_VALUE_NONE;
    if (!object || object == Py_None)
        return p->optional ? FAST : fail_kind(r, p, object ? object : Py_None, "a tensor");
    outcome o = read_tensor(object, &r->args[i].as.tensor, &requires_grad);
    if (o == SLOW && !tensors_is_tensor(object)) return fail_kind(r, p, object, "a tensor");
    if (o == SLOW && r->out)
        requires_grad = ask_requires_grad(object); /* torch.ops knows nothing of out= */
    r->args[i].kind = WICK_VALUE_TENSOR;
    if (requires_grad && !r->differentiable && shim.aoti_torch_grad_mode_is_enabled())
        r->differentiable = p->name;
    return o;
}

/* A tensor as a number is torch.ops' business, but for a gradient, which would be lost. */
static outcome convert_from_tensor(const request *r, const wick_param *p, PyObject *tensor)
{
    PyObject *fine = PyObject_CallMethod(extension.helpers, "check_number", "sssO", r->self->op->ns,
                                         op_name(r), p->name, tensor);
    Py_XDECREF(fine);
    return fine ? SLOW : FAILED;
}

static outcome convert_int(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    int overflow = 0;
    r->args[i].kind = WICK_VALUE_INT;
    r->args[i].as.i = p->default_int;
    if (!object) return FAST;
    if (PyLong_Check(object)) {
        r->args[i].as.i = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (!overflow) return FAST;
        PyErr_Format(PyExc_RuntimeError, "%s: %s is %S, expected an int of 64 bits", op_name(r),
                     p->name, object);
        return FAILED;
    }
    if (tensors_is_tensor(object)) return convert_from_tensor(r, p, object);
    return PyFloat_Check(object) || !PyIndex_Check(object) ? fail_kind(r, p, object, "an int")
                                                           : SLOW;
}

static outcome convert_float(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    r->args[i].kind = WICK_VALUE_FLOAT;
    r->args[i].as.f = p->default_float;
    if (!object) return FAST;
    if (PyFloat_Check(object) || PyLong_Check(object)) {
        r->args[i].as.f = PyFloat_AsDouble(object);
        if (!PyErr_Occurred()) return FAST;
        PyErr_Clear();
        PyErr_Format(PyExc_RuntimeError, "%s: %s is %S, expected a number that a float can hold",
                     op_name(r), p->name, object);
        return FAILED;
    }
    if (tensors_is_tensor(object)) return convert_from_tensor(r, p, object);
    return PyNumber_Check(object) && !PyComplex_Check(object) ? SLOW
                                                              : fail_kind(r, p, object, "a float");
}

static outcome convert_bool(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    r->args[i].kind = WICK_VALUE_BOOL;
    r->args[i].as.b = p->default_int != 0;
    if (!object) return FAST;
    if (PyBool_Check(object)) {
        r->args[i].as.b = object == Py_True;
        return FAST;
    }
    if (tensors_is_tensor(object)) return convert_from_tensor(r, p, object);
    return PyNumber_Check(object) && !PyFloat_Check(object) ? SLOW
                                                            : fail_kind(r, p, object, "a bool");
}

static outcome convert_text(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    r->args[i].kind = WICK_VALUE_STR;
    r->args[i].as.s =
        p->kind == WICK_KIND_CHOICE && p->n_choices ? p->choices[p->default_int] : p->default_str;
    if (!object) return FAST;
    if (!PyUnicode_Check(object)) return fail_kind(r, p, object, "a str");
    Py_ssize_t n = 0;
    r->args[i].as.s = PyUnicode_AsUTF8AndSize(object, &n);
    if (!r->args[i].as.s) return FAILED;
    if ((size_t)n == strlen(r->args[i].as.s)) return FAST;
    PyErr_Format(PyExc_RuntimeError, "%s: %s has a zero character inside, expected a str without",
                 op_name(r), p->name);
    return FAILED;
}

static outcome convert_shape(request *r, int i, PyObject *object)
{
    const wick_param *p = &r->sig->inputs[i];
    if (!object) object = Py_None; /* a shape has no default: parse has refused this */
    Py_ssize_t n = PyTuple_Check(object) || PyList_Check(object) ? PySequence_Size(object) : -1;
    outcome o = FAST;
    if (n < 0) return fail_kind(r, p, object, "a sequence of ints");
    r->args[i].kind = WICK_VALUE_SHAPE;
    if (n > WICK_MAX_RANK - r->n_room) return SLOW;
    int64_t *size = &r->room[r->n_room];
    for (Py_ssize_t d = 0; d < n && o == FAST; d++) {
        PyObject *item = PySequence_GetItem(object, d);
        int overflow = 0;
        if (!item) return FAILED;
        if (PyLong_Check(item))
            size[d] = PyLong_AsLongLongAndOverflow(item, &overflow);
        else
            o = PyIndex_Check(item) ? SLOW : fail_kind(r, p, item, "a sequence of ints");
        if (overflow) o = SLOW;
        Py_DECREF(item);
    }
    r->n_room += (int)n;
    r->args[i].as.tensor.dim = (int32_t)n;
    r->args[i].as.tensor.size = size;
    return o;
}

static outcome convert_argument(request *r, int i)
{
    switch (r->sig->inputs[i].kind) {
    case WICK_KIND_TENSOR: return convert_tensor(r, i, r->given[i]);
    case WICK_KIND_SHAPE: return convert_shape(r, i, r->given[i]);
    case WICK_KIND_INT: return convert_int(r, i, r->given[i]);
    case WICK_KIND_FLOAT: return convert_float(r, i, r->given[i]);
    case WICK_KIND_BOOL: return convert_bool(r, i, r->given[i]);
    default: return convert_text(r, i, r->given[i]);
    }
}

/* The tensor given as out= for the k-th tensor output, borrowed; NULL when there are not as many.
 */
static PyObject *out_tensor(const request *r, int k, int n_tensors)
{
    bool tuple = PyTuple_Check(r->out);
    if (!tuple) return n_tensors == 1 && k == 0 ? r->out : NULL;
    return PyTuple_Size(r->out) == n_tensors ? PyTuple_GetItem(r->out, k) : NULL;
}

static outcome convert_out(request *r, int i, int k, int n_tensors)
{
    bool requires_grad = false;
    PyObject *object = out_tensor(r, k, n_tensors);
    if (!object || !tensors_is_tensor(object)) {
        PyErr_Format(PyExc_TypeError, "%s: out is not right, expected %s", op_name(r),
                     n_tensors == 1 ? "a tensor" : "a tuple with one tensor per output");
        return FAILED;
    }
    outcome o = read_tensor(object, &r->results[i].as.tensor, &requires_grad);
    if (o == SLOW) requires_grad = ask_requires_grad(object);
    if (requires_grad && shim.aoti_torch_grad_mode_is_enabled()) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s: out requires grad, expected one that does not: what is written in place "
                     "has no gradient",
                     op_name(r));
        return FAILED;
    }
    r->results[i].kind = WICK_VALUE_TENSOR;
    return o;
}

static outcome convert_results(request *r)
{
    outcome o = FAST;
    int n_tensors = 0, k = 0;
    for (int i = 0; i < r->sig->n_outputs; i++)
        n_tensors += r->sig->outputs[i].kind == WICK_KIND_TENSOR;
    for (int i = 0; i < r->sig->n_outputs; i++) {
        r->results[i].kind = WICK_VALUE_NONE;
        r->results[i].owned = false;
        r->results[i].unwanted = false;
        if (r->wanted[i]) {
            int truth = PyObject_IsTrue(r->wanted[i]);
            if (truth < 0) return FAILED;
            r->results[i].unwanted = !truth;
        }
        if (!r->out || r->sig->outputs[i].kind != WICK_KIND_TENSOR) continue;
        outcome here = convert_out(r, i, k++, n_tensors);
        if (here == FAILED) return FAILED;
        if (here == SLOW) o = SLOW;
    }
    return o;
}

/* Nothing is active that should see this call. */
static bool is_quiet(const wick_signature *sig)
{
    if (extension.mode == DIRECT_INTERNALS)
        return wick_torch_state_is_plain() && !shim._ZN2at12hasCallbacksEv() &&
               (sig->autocast == WICK_AUTOCAST_KEEP || !wick_torch_autocast_is_on());
    if (extension.mode == DIRECT_DISPATCHER) return false;
    PyObject *quiet = PyObject_CallMethod(extension.helpers, "is_quiet", NULL);
    bool yes = quiet == Py_True;
    Py_XDECREF(quiet);
    PyErr_Clear();
    return yes;
}

static outcome convert(request *r)
{
    outcome o = is_quiet(r->sig) ? FAST : SLOW;
    r->n_room = 0;
    r->differentiable = NULL;
    for (int i = 0; i < r->sig->n_inputs; i++) {
        outcome here = convert_argument(r, i);
        if (here == FAILED) return FAILED;
        if (here == SLOW) o = SLOW;
    }
    outcome results = convert_results(r);
    if (results == FAILED) return FAILED;
    if (r->out && r->differentiable) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s: %s requires grad, so out= cannot be used: what is written in place has "
                     "no gradient",
                     op_name(r), r->differentiable);
        return FAILED;
    }
    if (o == SLOW || results == SLOW) return SLOW;
    return r->differentiable ? GRADIENT : FAST;
}

/* ---- the fast way ---- */

static PyObject *wrap_result(const request *r, int i)
{
    wick_value *v = (wick_value *)&r->results[i];
    switch (v->kind) {
    case WICK_VALUE_INT: return PyLong_FromLongLong(v->as.i);
    case WICK_VALUE_FLOAT: return PyFloat_FromDouble(v->as.f);
    case WICK_VALUE_BOOL: return PyBool_FromLong(v->as.b);
    case WICK_VALUE_TENSOR:
        return extension.mode == DIRECT_DLPACK ? dlpack_wrap(&v->as.tensor)
                                               : tensors_wrap((torch_handle)v->as.tensor.handle);
    default: Py_RETURN_NONE;
    }
}

static PyObject *wrap_results(request *r)
{
    int n = r->sig->n_outputs;
    if (r->out) {
        Py_INCREF(r->out);
        return r->out;
    }
    if (n == 0) Py_RETURN_NONE;
    if (n == 1) return wrap_result(r, 0);
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *item =
            wrap_result(r, i); /* also when the tuple failed: it gives the handle back */
        if (tuple && item)
            PyTuple_SetItem(tuple, i, item);
        else
            Py_XDECREF(item);
        if (!item) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *call_fast(request *r)
{
    wick_ctx ctx;
    PyObject *result = NULL;
    wick_ctx_init(&ctx, &wick_torch_services);
    const wick_host *host = extension.mode == DIRECT_DLPACK ? &dlpack_host : &wick_torch_host;

    PyThreadState *thread = PyEval_SaveThread();
    wick_status s = wick_op_invoke(&ctx, r->self->op, r->def, host, r->args, r->results);
    PyEval_RestoreThread(thread);
    result = s == WICK_OK ? wrap_results(r) : raise_status(&ctx, s);
    wick_ctx_deinit(&ctx);
    return result;
}

/* ---- the slow way ---- */

/* The default of an input that was left out, as Python has it: torch.ops is given every argument.
 */
static PyObject *default_object(const request *r, int i)
{
    const wick_value *v = &r->args[i];
    switch (r->sig->inputs[i].kind) {
    case WICK_KIND_INT: return PyLong_FromLongLong(v->as.i);
    case WICK_KIND_FLOAT: return PyFloat_FromDouble(v->as.f);
    case WICK_KIND_BOOL: return PyBool_FromLong(v->as.b);
    case WICK_KIND_STR:
    case WICK_KIND_CHOICE: return PyUnicode_FromString(v->as.s);
    default: Py_RETURN_NONE;
    }
}

/* One object per input; behind them there is room for `n_more`. */
static PyObject *all_arguments(const request *r, int n_more)
{
    PyObject *args = PyTuple_New(r->sig->n_inputs + n_more);
    for (int i = 0; args && i < r->sig->n_inputs; i++) {
        PyObject *item = r->given[i];
        if (item)
            Py_INCREF(item);
        else
            item = default_object(r, i);
        if (item)
            PyTuple_SetItem(args, i, item);
        else
            Py_CLEAR(args);
    }
    return args;
}

static PyObject *all_keywords(const request *r)
{
    PyObject *keywords = PyDict_New();
    for (int i = 0; keywords && i < r->sig->n_outputs; i++) {
        if (!r->wanted[i]) continue;
        PyObject *name = PyUnicode_FromFormat("want_%s", r->sig->outputs[i].name);
        if (!name || PyDict_SetItem(keywords, name, r->wanted[i]) < 0) Py_CLEAR(keywords);
        Py_XDECREF(name);
    }
    return keywords;
}

static PyObject *call_slow(const request *r)
{
    PyObject *overload = operator_overload(r->self);
    PyObject *args = overload ? all_arguments(r, 0) : NULL;
    PyObject *keywords = args ? all_keywords(r) : NULL;
    PyObject *result = keywords ? PyObject_Call(overload, args, keywords) : NULL;
    if (result && r->out) {
        PyObject *copied =
            PyObject_CallMethod(extension.helpers, "copy_out", "sOO", op_name(r), result, r->out);
        Py_DECREF(result);
        result = copied;
    }
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return result;
}

/* ---- the gradient ---- */

/* The inputs, then the want_x of the optional outputs: as the function from _autograd takes them.
 */
static PyObject *call_gradient(const request *r)
{
    int n_wanted = 0, at = r->sig->n_inputs;
    for (int i = 0; i < r->sig->n_outputs; i++)
        n_wanted += r->sig->outputs[i].optional;
    PyObject *function = operator_gradient(r->self);
    PyObject *args = function ? all_arguments(r, n_wanted) : NULL;
    for (int i = 0; args && i < r->sig->n_outputs; i++)
        if (r->sig->outputs[i].optional)
            PyTuple_SetItem(args, at++, PyBool_FromLong(!r->results[i].unwanted));
    PyObject *result = args ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(args);
    return result;
}

PyObject *direct_call(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *keywords)
{
    request r;
    r.self = (operator_object *)self;
    r.def = wick_op_current(r.self->op);
    r.sig = r.def->sig;
    if (!parse(&r, args, n_args, keywords)) return NULL;
    switch (convert(&r)) {
    case FAST: return call_fast(&r);
    case GRADIENT: return call_gradient(&r);
    case SLOW: return call_slow(&r);
    default: return NULL;
    }
}
