/* trials.c -- guarded calls (src/trial) for `wick check`
 *
 * Tensors pass as (address, type, sizes, strides) and come back as bytes: what they are is Python's
 * business, and a trial's memory is not torch's.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "cuda.h"
#include "extension.h"
#include "trial.h"

#include <dlfcn.h>
#include <string.h>

enum { MOST_TOGETHER = 16 };

typedef struct trial_arguments {
    wick_trial_argument value[WICK_MAX_PARAMS];
    int64_t sizes[WICK_MAX_PARAMS][WICK_MAX_RANK], strides[WICK_MAX_PARAMS][WICK_MAX_RANK];
    bool unwanted[WICK_MAX_PARAMS];
} trial_arguments;

/* ---- reading ---- */

/* The numbers of a tuple, at most WICK_MAX_RANK; how many, or -1 with an exception set. */
static int read_numbers(PyObject *tuple, int64_t *out)
{
    Py_ssize_t n = PyTuple_Size(tuple);
    if (n > WICK_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "a tensor with %zd dimensions", n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    return PyErr_Occurred() ? -1 : (int)n;
}

/* (address, type, sizes, strides, in_zone), or (sizes,) for a shape. */
static bool read_tuple(PyObject *item, trial_arguments *out, int i)
{
    wick_value *v = &out->value[i].value;
    PyObject *sizes = NULL, *strides = NULL;
    const char *type = NULL;
    unsigned long long address = 0;
    int in_zone = 0;
    bool reserved;
    if (PyTuple_Size(item) == 1) {
        v->kind = WICK_VALUE_SHAPE;
        sizes = PyTuple_GetItem(item, 0);
    } else {
        if (!PyArg_ParseTuple(item, "KsOOp", &address, &type, &sizes, &strides, &in_zone))
            return false;
        v->kind = WICK_VALUE_TENSOR;
        if (read_numbers(strides, out->strides[i]) < 0) return false;
    }
    int dim = read_numbers(sizes, out->sizes[i]);
    if (dim < 0) return false;
    v->as.tensor = (wick_tensor){.dim = dim, .size = out->sizes[i], .stride = out->strides[i]};
    if (!type) return true;
    v->as.tensor.data = (void *)(uintptr_t)address;
    v->as.tensor.dtype = (int32_t)wick_dtype_parse(type, strlen(type), &reserved);
    out->value[i].in_zone = in_zone != 0;
    return true;
}

static bool read_argument(PyObject *item, trial_arguments *out, int i)
{
    wick_value *v = &out->value[i].value;
    if (item == Py_None) return true;
    if (PyTuple_Check(item)) return read_tuple(item, out, i);
    if (PyBool_Check(item)) {
        *v = wick_bool(item == Py_True);
    } else if (PyLong_Check(item)) {
        *v = wick_int(PyLong_AsLongLong(item));
    } else if (PyFloat_Check(item)) {
        *v = wick_float(PyFloat_AsDouble(item));
    } else {
        *v = wick_str(PyUnicode_AsUTF8AndSize(item, NULL));
    }
    return !PyErr_Occurred();
}

/* args: one item per input; wanted: one truth per output. */
static bool read_arguments(const wick_signature *sig, PyObject *args, PyObject *wanted,
                           trial_arguments *out)
{
    if (PyTuple_Size(args) != sig->n_inputs || PyTuple_Size(wanted) != sig->n_outputs) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%s: %d inputs and %d outputs expected", sig->name,
                         sig->n_inputs, sig->n_outputs);
        return false;
    }
    for (int i = 0; i < sig->n_inputs; i++)
        if (!read_argument(PyTuple_GetItem(args, i), out, i)) return false;
    for (int i = 0; i < sig->n_outputs; i++)
        out->unwanted[i] = PyTuple_GetItem(wanted, i) == Py_False;
    return true;
}

static bool read_options(PyObject *tuple, wick_trial_options *out)
{
    int at_end, order, fill;
    long long repeats, meetings;
    Py_ssize_t room;
    unsigned long long seed;
    if (!PyArg_ParseTuple(tuple, "pIiiiKLLn", &at_end, &out->shift, &fill, &out->threads, &order,
                          &seed, &repeats, &meetings, &room))
        return false;
    out->at_end = at_end != 0;
    out->fill = (uint8_t)fill;
    out->order = (wick_order)order;
    out->seed = seed;
    out->repeats = repeats;
    out->meetings = meetings;
    out->room = room > 0 ? (size_t)room : 0;
    return true;
}

/* ---- answering ---- */

static PyObject *result_of(const wick_trial *t, int i)
{
    const wick_value *r = &t->results[i];
    const void *data;
    size_t bytes;
    switch (r->kind) {
    case WICK_VALUE_INT: return PyLong_FromLongLong(r->as.i);
    case WICK_VALUE_FLOAT: return PyFloat_FromDouble(r->as.f);
    case WICK_VALUE_BOOL: return PyBool_FromLong(r->as.b);
    case WICK_VALUE_TENSOR:
        wick_trial_result(t, i, &data, &bytes);
        return PyByteArray_FromStringAndSize(data, (Py_ssize_t)bytes);
    default: Py_RETURN_NONE;
    }
}

static PyObject *results_of(const wick_trial *t)
{
    PyObject *list = PyList_New(t->sig->n_outputs);
    for (int i = 0; list && i < t->sig->n_outputs; i++) {
        PyObject *item = result_of(t, i);
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Per input: the bytes of what is written in place, else None. */
static PyObject *written_by(const wick_trial *t)
{
    PyObject *list = PyList_New(t->sig->n_inputs);
    for (int i = 0; list && i < t->sig->n_inputs; i++) {
        const wick_zone *zone = wick_trial_written(t, i);
        PyObject *item = zone ? PyByteArray_FromStringAndSize(zone->data, (Py_ssize_t)zone->bytes)
                              : Py_BuildValue("");
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *report_of(wick_trial *t, wick_status status)
{
    const char *words = wick_ctx_message(&t->ctx);
    wick_trial_inspect(t);
    return Py_BuildValue("{si sN sN sN ss ss sL s(LLLL) s(LL)}", "status", (int)status, "message",
                         PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "replace"),
                         "results", results_of(t), "written", written_by(t), "damage",
                         wick_text_str(&t->damage), "left", wick_text_str(&t->left), "differs",
                         (long long)t->differs, "leaked", (long long)t->leaked.heap_bytes,
                         (long long)t->leaked.mapped_bytes, (long long)t->leaked.files,
                         (long long)t->leaked.threads, "loops", (long long)t->schedule.loops,
                         (long long)t->schedule.pieces);
}

static wick_op *find_op(const char *ns, const char *name)
{
    wick_op *op = wick_op_find(ns, name);
    if (!op || !wick_op_current(op)) {
        PyErr_Format(PyExc_LookupError, "no operator %s in namespace %s", name, ns);
        return NULL;
    }
    return op;
}

/* A trial with its inputs in place; false with an exception set. */
static bool begin(wick_trial *t, wick_op *op, PyObject *args, PyObject *wanted,
                  const wick_trial_options *options)
{
    wick_ctx ctx;
    trial_arguments *read = wick_calloc(1, sizeof *read);
    bool done = read && read_arguments(wick_op_current(op)->sig, args, wanted, read);
    if (!read) PyErr_NoMemory();
    wick_ctx_init(&ctx, NULL);
    if (done) {
        wick_status s = wick_trial_init(&ctx, t, op, read->value, read->unwanted, options);
        if (s != WICK_OK) raise_status(&ctx, s);
        done = s == WICK_OK;
    }
    wick_ctx_deinit(&ctx);
    wick_free(read);
    return done;
}

PyObject *trial_call(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *values, *wanted, *settings, *result = NULL;
    wick_trial_options options;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssO!O!O!", &ns, &name, &PyTuple_Type, &values, &PyTuple_Type,
                          &wanted, &PyTuple_Type, &settings))
        return NULL;
    wick_op *op = find_op(ns, name);
    if (!op || !read_options(settings, &options)) return NULL;
    wick_trial *t = wick_calloc(1, sizeof *t);
    if (!t) return PyErr_NoMemory();
    if (begin(t, op, values, wanted, &options)) {
        PyThreadState *thread = PyEval_SaveThread();
        wick_status s = wick_trial_run(t);
        PyEval_RestoreThread(thread);
        result = report_of(t, s);
    }
    wick_trial_free(t);
    wick_free(t);
    return result;
}

/* The trials of a list of arguments, called at once; the index of the one that differs, or -1. */
static PyObject *run_together(wick_op *op, PyObject *calls, PyObject *wanted, long long rounds,
                              const wick_trial_options *options, wick_trial *trials)
{
    int n = (int)PyTuple_Size(calls), differs = -1;
    wick_ctx ctx;
    for (int i = 0; i < n; i++)
        if (!begin(&trials[i], op, PyTuple_GetItem(calls, i), wanted, options)) return NULL;
    wick_ctx_init(&ctx, NULL);
    PyThreadState *thread = PyEval_SaveThread();
    wick_status s = options->order == WICK_ORDER_WATCHED
                        ? wick_trial_watch(&ctx, trials, n)
                        : wick_trial_together(&ctx, trials, n, rounds, &differs);
    PyEval_RestoreThread(thread);
    PyObject *result = s == WICK_OK ? PyLong_FromLong(differs) : raise_status(&ctx, s);
    wick_ctx_deinit(&ctx);
    return result;
}

PyObject *trial_together(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    PyObject *calls, *wanted, *settings, *result = NULL;
    long long rounds;
    wick_trial_options options;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssO!O!O!L", &ns, &name, &PyTuple_Type, &calls, &PyTuple_Type,
                          &wanted, &PyTuple_Type, &settings, &rounds))
        return NULL;
    Py_ssize_t n = PyTuple_Size(calls);
    wick_op *op = find_op(ns, name);
    if (!op || !read_options(settings, &options)) return NULL;
    if (n < 1 || n > MOST_TOGETHER) {
        PyErr_Format(PyExc_ValueError, "%zd calls, expected 1 to %d", n, MOST_TOGETHER);
        return NULL;
    }
    wick_trial *trials = wick_calloc((size_t)n, sizeof *trials);
    if (!trials) return PyErr_NoMemory();
    result = run_together(op, calls, wanted, rounds, &options, trials);
    for (Py_ssize_t i = 0; i < n; i++)
        wick_trial_free(&trials[i]);
    wick_free(trials);
    return result;
}

/* ---- what is watched ---- */

PyObject *trial_watch(PyObject *module, PyObject *none)
{
    wick_ctx ctx;
    PyObject *list = NULL;
    (void)module, (void)none;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_watch_offer(&ctx);
    if (s == WICK_OK) {
        list = PyList_New(0);
        for (const char *const *flag = wick_watch_flags; list && *flag; flag++) {
            PyObject *item = PyUnicode_FromString(*flag);
            if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
            Py_XDECREF(item);
        }
    } else {
        raise_status(&ctx, s);
    }
    wick_ctx_deinit(&ctx);
    return list;
}

/* (whether it writes, the module, the place in it) */
static PyObject *toucher(const wick_toucher *t)
{
    Dl_info module = {.dli_fname = ""};
    if (!dladdr(t->code, &module)) module.dli_fbase = NULL;
    return Py_BuildValue("(NsL)", PyBool_FromLong(t->writes), module.dli_fname,
                         (long long)((const char *)t->code - (const char *)module.dli_fbase));
}

PyObject *trial_conflicts(PyObject *module, PyObject *none)
{
    wick_conflict found[WICK_WATCH_CONFLICTS];
    int n = wick_watch_take(found);
    PyObject *list = PyList_New(n);
    (void)module, (void)none;
    for (int i = 0; list && i < n; i++) {
        PyObject *item = Py_BuildValue("(NNs)", toucher(&found[i].now), toucher(&found[i].before),
                                       found[i].where);
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

/* ---- memory and last words ---- */

PyObject *trial_reserve(PyObject *module, PyObject *args)
{
    const char *label;
    long long bytes;
    int written;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "sLp", &label, &bytes, &written)) return NULL;
    wick_zone *zone = wick_calloc(1, sizeof *zone); /* lives as long as the process */
    if (!zone) return PyErr_NoMemory();
    wick_zone_wish wish = {.label = label,
                           .bytes = (size_t)bytes,
                           .alignment = 8,
                           .at_end = true,
                           .writable = true,
                           .folded = written != 0};
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_zone_open(&ctx, &wish, zone);
    PyObject *result = s == WICK_OK
                           ? Py_BuildValue("(KL)", (unsigned long long)(uintptr_t)zone->data,
                                           (long long)wick_zone_tail(zone->bytes))
                           : raise_status(&ctx, s);
    if (s != WICK_OK) wick_free(zone);
    wick_ctx_deinit(&ctx);
    return result;
}

/* ---- memory of a device ---- */

PyObject *trial_fenced(PyObject *module, PyObject *args)
{
    wick_ctx ctx;
    unsigned long long asked = 0;
    void *address = NULL;
    int device = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "iK:fenced", &device, &asked)) return NULL;
    uint64_t bytes = asked;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_cuda_fenced(&ctx, device, &bytes, &address);
    PyObject *result = s == WICK_OK
                           ? Py_BuildValue("KK", (unsigned long long)(uintptr_t)address, bytes)
                           : raise_status(&ctx, s);
    wick_ctx_deinit(&ctx);
    return result;
}

static PyObject *scratch_maker; /* under the GIL */

static wick_status scratch_of_maker(wick_ctx *ctx, const char *name, int device_index,
                                    uint64_t bytes, void **out)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *made = scratch_maker ? PyObject_CallFunction(scratch_maker, "siK", name, device_index,
                                                           (unsigned long long)bytes)
                                   : NULL;
    unsigned long long address = made ? PyLong_AsUnsignedLongLong(made) : 0;
    bool failed = !made || PyErr_Occurred();
    PyErr_Clear();
    Py_XDECREF(made);
    PyGILState_Release(gil);
    if (failed)
        return wick_fail(ctx, WICK_ENOMEM, "no memory for scratch %s (%llu bytes)", name,
                         (unsigned long long)bytes);
    *out = (void *)(uintptr_t)address;
    return WICK_OK;
}

PyObject *trial_scratch_from(PyObject *module, PyObject *maker)
{
    (void)module;
    PyObject *before = scratch_maker;
    scratch_maker = maker == Py_None ? NULL : maker;
    Py_XINCREF(scratch_maker);
    wick_call_scratch_from(scratch_maker ? scratch_of_maker : NULL);
    Py_XDECREF(before);
    return Py_BuildValue("");
}

PyObject *trial_report_crashes(PyObject *module, PyObject *number)
{
    wick_ctx ctx;
    (void)module;
    long fd = PyLong_AsLong(number);
    if (PyErr_Occurred()) return NULL;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_crash_report(&ctx, (int)fd);
    PyObject *result = s == WICK_OK ? Py_BuildValue("") : raise_status(&ctx, s);
    wick_ctx_deinit(&ctx);
    return result;
}
