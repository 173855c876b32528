/* extension.c -- the module `_wick` */
#include "extension.h"

#include "cuda.h"
#include "load.h"

#include <stdio.h>
#include <string.h>

extension_state extension;

/* The status goes along as `_status`: wick.check tells by it what an operator refuses from what it
 * does not support. */
PyObject *raise_status(const wick_ctx *ctx, wick_status status)
{
    const char *words = wick_ctx_message(ctx);
    if (status == WICK_ENOMEM && !strcmp(words, "out of memory")) return PyErr_NoMemory();
    PyObject *type = status == WICK_ECOMPILE ? extension.build_error : PyExc_RuntimeError;
    PyObject *text = PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "replace");
    PyObject *error = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    PyObject *number = error ? PyLong_FromLong(status) : NULL;
    if (number && PyObject_SetAttrString(error, "_status", number) == 0)
        PyErr_SetObject(type, error);
    Py_XDECREF(number);
    Py_XDECREF(error);
    Py_XDECREF(text);
    return NULL;
}

static PyObject *raise_build(const wick_ctx *ctx)
{
    PyErr_SetString(extension.build_error, wick_ctx_message(ctx));
    return NULL;
}

static const wick_build_watch watch;

/* ---- torch ---- */

PyDoc_STRVAR(attach_doc,
             "attach(Tensor, Parameter, helpers, folders)\n--\n\n"
             "Finds torch's C functions in the process. Called once, before anything is loaded.\n"
             "folders: of Python's packages, where NVRTC may be when it is needed.");

/* Only remembered: nothing is opened before a kernel is compiled. */
static bool tell_folders(PyObject *folders)
{
    Py_ssize_t n = PyTuple_Size(folders);
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *folder = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(folders, i), NULL);
        if (!folder) return false;
        wick_nvrtc_look_in(folder);
    }
    return n >= 0;
}

static PyObject *attach(PyObject *module, PyObject *args)
{
    PyObject *tensor, *parameter, *helpers, *folders;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &tensor, &parameter, &helpers, &folders)) return NULL;
    if (!tell_folders(folders)) return NULL;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_torch_init(&ctx);
    if (s != WICK_OK) {
        PyErr_SetString(PyExc_ImportError, wick_ctx_message(&ctx));
        wick_ctx_deinit(&ctx);
        return NULL;
    }
    wick_ctx_deinit(&ctx);
    Py_INCREF(tensor);
    Py_INCREF(parameter);
    Py_INCREF(helpers);
    extension.tensor_type = tensor;
    extension.parameter_type = parameter;
    extension.helpers = helpers;
    wick_torch_set_hook(ask_python, raise_pending);
    wick_load_set_watch(&watch);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    learn_doc,
    "learn(examples)\n--\n\n"
    "Checks torch's internals against examples, a list of (tensor, address, dispatch keys, kind,\n"
    "requires_grad); True if calls may use them.");

static PyObject *learn(PyObject *module, PyObject *examples)
{
    (void)module;
    bool usable = PyList_Check(examples) && tensors_learn(examples);
    return PyBool_FromLong(usable);
}

PyDoc_STRVAR(learn_tangent_doc,
             "learn_tangent(dual)\n--\n\nWhether a tensor with a forward gradient is seen as one.");

static PyObject *learn_tangent(PyObject *module, PyObject *dual)
{
    (void)module;
    return PyBool_FromLong(tensors_is_tensor(dual) &&
                           wick_torch_learn_tangent(tensors_handle(dual)));
}

PyDoc_STRVAR(learn_state_doc,
             "learn_state()\n--\n\nThe thread's dispatch state right now is one for direct calls.");

static PyObject *learn_state(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(wick_torch_learn_state());
}

PyDoc_STRVAR(expect_doc, "expect(keys, kind)\n--\n\n"
                         "The dispatch keys that plain tensors on a GPU will have.");

static PyObject *expect(PyObject *module, PyObject *args)
{
    unsigned long long keys;
    int kind;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ki", &keys, &kind)) return NULL;
    wick_torch_expect(keys, (wick_torch_tensor_kind)kind);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(learnt_doc,
             "learnt()\n--\n\n"
             "What calls read where torch keeps it: of 'layout', 'memory', 'versions', 'devices' "
             "those that passed their check. The rest is asked for.");

static PyObject *learnt_parts(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    wick_torch_known known = wick_torch_what_is_known();
    const struct {
        const char *name;
        bool known;
    } parts[] = {{"layout", known.layout},
                 {"memory", known.memory},
                 {"versions", known.versions},
                 {"devices", known.devices}};
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sizeof parts / sizeof parts[0]; i++) {
        PyObject *name = parts[i].known ? PyUnicode_FromString(parts[i].name) : NULL;
        if (name && PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return PyErr_Occurred() ? NULL : list;
}

PyDoc_STRVAR(learn_autocast_doc,
             "learn_autocast()\n--\n\nAutocast is on right now, and nothing else.");

static PyObject *learn_autocast(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(wick_torch_learn_autocast());
}

PyDoc_STRVAR(set_mode_doc, "set_mode(name)\n--\n\n"
                           "How direct calls reach tensors: 'internals', 'dlpack' or 'dispatcher'. "
                           "False if it cannot be had.");

static PyObject *set_mode(PyObject *module, PyObject *name)
{
    (void)module;
    const char *mode = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!mode) return NULL;
    bool internals = !strcmp(mode, "internals"), dlpack = !strcmp(mode, "dlpack");
    bool possible =
        internals ? wick_torch_internals_usable() : !dlpack || dlpack_attach(extension.tensor_type);
    if (possible)
        extension.mode = internals ? DIRECT_INTERNALS : dlpack ? DIRECT_DLPACK : DIRECT_DISPATCHER;
    if (possible && !internals) wick_torch_internals_disable();
    return PyBool_FromLong(possible);
}

/* ---- loading ---- */

static bool ask_helpers(const char *what, const wick_op *op)
{
    PyObject *done = PyObject_CallMethod(extension.helpers, what, "ss", op->ns, op->name);
    Py_XDECREF(done);
    return done != NULL;
}

/* What torch does with an operator beyond calling it is arranged in Python. */
static bool announce(const wick_op *op, PyObject *function)
{
    bool autocast = wick_op_current(op)->sig->autocast != WICK_AUTOCAST_KEEP;
    PyObject *done = PyObject_CallMethod(extension.helpers, "published", "ssOO", op->ns, op->name,
                                         function, autocast ? Py_True : Py_False);
    Py_XDECREF(done);
    return done != NULL;
}

/* Makes a module's operators known to torch; a list of their functions. */
static PyObject *publish(wick_ctx *ctx, const wick_module *module)
{
    PyObject *list = PyList_New(0);
    extension.changes++;
    for (int64_t i = 0; list && i < wick_module_count(module); i++) {
        wick_op *op = wick_module_op(module, i);
        bool changed = false;
        if (wick_torch_register(ctx, op, &changed) != WICK_OK) {
            Py_DECREF(list);
            return raise_build(ctx);
        }
        if (changed && !ask_helpers("forget", op)) Py_CLEAR(list);
        if (list && !wick_torch_internals_usable() && !ask_helpers("gate", op)) Py_CLEAR(list);
        PyObject *function = list ? operator_function(op) : NULL;
        bool listed = function && operator_refresh(function) &&
                      PyList_Append(list, function) == 0 && announce(op, function);
        if (!listed) Py_CLEAR(list);
        Py_XDECREF(function);
    }
    return list;
}

PyDoc_STRVAR(load_module_doc,
             "load_module(path)\n--\n\nLoads a module; the functions of its operators.");

static PyObject *load_module(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL, *result;
    wick_module *loaded = NULL;
    wick_ctx ctx;
    (void)module;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    wick_ctx_init(&ctx, NULL);
    PyThreadState *thread = PyEval_SaveThread();
    wick_status s = wick_module_load(&ctx, PyBytes_AsString(bytes), &loaded);
    PyEval_RestoreThread(thread);
    result = s == WICK_OK ? publish(&ctx, loaded) : raise_build(&ctx);
    Py_DECREF(bytes);
    wick_ctx_deinit(&ctx);
    return result;
}

enum { MAX_FLAGS = 256 };

/* flags: a tuple of str; the strings live as long as the tuple. */
static bool read_flags(PyObject *flags, const char **out)
{
    Py_ssize_t n = PyTuple_Size(flags);
    if (n < 0 || n >= MAX_FLAGS) {
        if (n >= 0)
            PyErr_Format(PyExc_ValueError, "%zd flags, expected fewer than %d", n, MAX_FLAGS);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(flags, i), NULL);
        if (!out[i]) return false;
    }
    out[n] = NULL;
    return true;
}

/* What a build may tell goes to Python, which knows how to show it. */
static void tell(const char *event, const char *file, const char *detail)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(extension.helpers, "tell", "sss", event, file, detail);
    if (!done) { /* nobody is waiting for the answer; but Ctrl-C is meant for whoever loads */
        bool stop = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        PyErr_Clear();
        if (stop) PyErr_SetInterrupt();
    }
    Py_XDECREF(done);
    PyGILState_Release(gil);
}

static void tell_started(void *arg, const char *file, const char *types)
{
    (void)arg;
    tell("started", file, types);
}

static void tell_waiting(void *arg, const char *file, long pid)
{
    char number[32];
    (void)arg;
    snprintf(number, sizeof number, "%ld", pid);
    tell("waiting", file, number);
}

static void tell_finished(void *arg, const char *file, bool ok)
{
    (void)arg;
    tell("finished", file, ok ? "ok" : "failed");
}

static const wick_build_watch watch = {tell_started, tell_waiting, tell_finished, NULL};

PyDoc_STRVAR(
    load_source_doc,
    "load_source(path, text, include, flags, cuda_flags, cache, all_types, cuda)\n--\n\n"
    "Builds a source and loads it; (number, functions, warnings). text None: read the file at\n"
    "path. functions None: nothing has changed since the load that gave this number.");

static PyObject *load_source(PyObject *module, PyObject *args)
{
    const char *flags[MAX_FLAGS], *cuda_flags[MAX_FLAGS], *text, *include, *cache;
    int all_types, cuda;
    PyObject *path = NULL, *flag_tuple, *cuda_tuple, *functions, *result = NULL;
    wick_module *loaded = NULL;
    char *warnings = NULL;
    bool unchanged = false;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&zsOOzpp", PyUnicode_FSConverter, &path, &text, &include,
                          &flag_tuple, &cuda_tuple, &cache, &all_types, &cuda))
        return NULL;
    if (!read_flags(flag_tuple, flags) || !read_flags(cuda_tuple, cuda_flags)) {
        Py_DECREF(path);
        return NULL;
    }
    wick_source source = {.path = PyBytes_AsString(path), .text = text};
    wick_build_options options = {.include_dir = include,
                                  .flags = flags,
                                  .cuda_flags = cuda_flags,
                                  .cache_dir = cache,
                                  .all_types = all_types != 0,
                                  .no_cuda = !cuda};
    wick_ctx_init(&ctx, NULL);
    PyThreadState *thread = PyEval_SaveThread();
    wick_status s = wick_load_source_again(&ctx, &source, &options, &loaded, &warnings, &unchanged);
    PyEval_RestoreThread(thread);
    if (s == WICK_OK && unchanged) {
        Py_INCREF(Py_None);
        functions = Py_None;
    } else {
        functions = s == WICK_OK ? publish(&ctx, loaded) : raise_build(&ctx);
    }
    if (functions)
        result = Py_BuildValue("(nNs)", (Py_ssize_t)(intptr_t)loaded, functions,
                               warnings ? warnings : "");
    wick_string_free(warnings);
    Py_DECREF(path);
    wick_ctx_deinit(&ctx);
    return result;
}

PyDoc_STRVAR(functions_doc,
             "functions(number)\n--\n\n"
             "The functions of the load that has this number: another thread's, that is not done "
             "with it yet.");

static PyObject *functions_of(PyObject *module, PyObject *number)
{
    wick_ctx ctx;
    (void)module;
    const wick_module *loaded = PyLong_AsVoidPtr(number);
    if (!loaded) return PyErr_Occurred() ? NULL : PyList_New(0);
    wick_ctx_init(&ctx, NULL);
    PyObject *list = publish(&ctx, loaded);
    wick_ctx_deinit(&ctx);
    return list;
}

PyDoc_STRVAR(prototype_doc,
             "prototype(name, signature)\n--\n\nOf the C function that the signature asks for.");

static PyObject *prototype(PyObject *module, PyObject *args)
{
    const char *name, *text;
    wick_signature *sig = NULL;
    wick_arena arena = {0};
    wick_text out = {0};
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &name, &text)) return NULL;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_signature_parse(&ctx, &arena, name, text, &sig);
    if (s == WICK_OK) wick_signature_print_prototype(&out, sig, "cpu", true);
    PyObject *result = s == WICK_OK ? PyUnicode_FromString(wick_text_str(&out)) : raise_build(&ctx);
    wick_text_free(&out);
    wick_arena_free(&arena);
    wick_ctx_deinit(&ctx);
    return result;
}

/* ---- finding ---- */

PyDoc_STRVAR(find_doc, "find(namespace, name)\n--\n\nThe operator's function, or None.");

static PyObject *find(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    wick_op *op = wick_op_find(ns, name);
    if (!op) Py_RETURN_NONE;
    return operator_function(op);
}

PyDoc_STRVAR(gradient_doc,
             "gradient(namespace, name)\n--\n\nNone, or (backward, [(source, index, axis), ...], "
             "[input, ...]): where the\n"
             "backward's arguments come from, and which input each of its results belongs to.");

PyDoc_STRVAR(describe_doc, "describe(namespace, name)\n--\n\nThe operator's signature, as data.");
PyDoc_STRVAR(
    infer_doc,
    "infer(namespace, name, values, sizes)\n--\n\nWhat a call would return, after its checks.");

PyDoc_STRVAR(
    suggest_doc,
    "suggest(namespace, name)\n--\n\nNames of the namespace that look like it, comma-separated.");

static PyObject *suggest(PyObject *module, PyObject *args)
{
    const char *ns, *name;
    wick_text text = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &ns, &name)) return NULL;
    wick_registry_suggest(&text, ns, name);
    PyObject *result = PyUnicode_FromString(wick_text_str(&text));
    wick_text_free(&text);
    return result;
}

PyDoc_STRVAR(operators_doc,
             "operators()\n--\n\n(namespace, name, signature) of every operator that is loaded.");

static PyObject *operators(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    const wick_op *op;
    (void)module, (void)unused;
    for (int64_t i = 0; list && (op = wick_registry_at(i)); i++) {
        if (!wick_op_current(op)) continue;
        PyObject *row = Py_BuildValue("(sss)", op->ns, op->name, wick_op_signature(op));
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyDoc_STRVAR(parameters_doc,
             "parameters(namespace, name)\n--\n\n"
             "Of an operator: {'dims': [(name, is_leading)], 'variables': [(name, types)], "
             "'inputs', 'outputs'},\n"
             "the last two as a list of dicts.");

PyDoc_STRVAR(tune_choices_doc,
             "tune_choices(namespace, name)\n--\n\n"
             "The operator's launch choices as it lists them, and [(knob, [value, ...]), ...]; a "
             "knob without\nvalues is another operator's. None: it has none.");
PyDoc_STRVAR(tune_force_doc,
             "tune_force(namespace, name, values)\n--\n\n"
             "Every call uses these values, one per knob, until this is called with None.");
PyDoc_STRVAR(
    tune_forget_doc,
    "tune_forget(namespace, name)\n--\n\nReads the operator's file again at its next call.");
PyDoc_STRVAR(tune_path_doc,
             "tune_path(namespace, name, device)\n--\n\n"
             "Where its choices are kept for devices of that name; '' without a cache.");
PyDoc_STRVAR(
    tune_key_doc,
    "tune_key(namespace, name, types, dims)\n--\n\n"
    "What calls with these types and sizes have in common: how a line of the file begins.");

PyDoc_STRVAR(plan_doc,
             "plan(namespace, name, dims, types, absent)\n--\n\n"
             "A call with these sizes (a tuple for *N) and element types, without the inputs named "
             "in absent:\n"
             "(inputs, outputs, bytes read, bytes written), each tensor as (shape, type), "
             "None where there is none.");

PyDoc_STRVAR(copy_doc, "copy(to, from, bytes, grain, way, repeats)\n--\n\n"
                       "Copies memory over torch's threads, `grain` bytes or more each. way: 0 by "
                       "the C library,\n1 in a loop, 2 past the caches.");

PyDoc_STRVAR(sample_doc, "sample(namespace, name, kind, seed, budget)\n--\n\n"
                         "Sizes that fit the signature, a tuple for *N; kind: 'random', 'empty', "
                         "'one', 'odd' or 'large'.");

PyDoc_STRVAR(
    trial_doc,
    "trial(namespace, name, args, wanted, settings)\n--\n\n"
    "A guarded call on the CPU. args: None, a number, a str, (sizes,) for a shape or\n"
    "(address, type, sizes, strides, in_zone) for a tensor; wanted: a bool per output;\n"
    "settings: (at_end, shift, fill, threads, order, seed, repeats, meetings, room). A dict "
    "comes back.");

PyDoc_STRVAR(trial_together_doc,
             "trial_together(namespace, name, calls, wanted, settings, rounds)\n--\n\n"
             "The calls, made by a thread each, all at once, again and again; the index of the "
             "first\n"
             "whose result is not that of the call alone, or -1.");

PyDoc_STRVAR(watch_doc, "watch()\n--\n\n"
                        "Modules loaded from now on can be watched if they are built with the "
                        "flags\nthat come back: which memory pieces of a loop, or callers, share.");

PyDoc_STRVAR(conflicts_doc,
             "conflicts()\n--\n\n"
             "What trials of order 4 have found since the last time: ((writes, module, place) "
             "of the\nlater one, the same of the earlier one, where), eight at most.");

PyDoc_STRVAR(
    reserve_doc,
    "reserve(label, bytes, written)\n--\n\n"
    "Guarded memory that reads as zeros: its address, and how many bytes at its end are "
    "its own.\n"
    "Of a huge one only those can be written, unless it is meant to be. Never given back.");

PyDoc_STRVAR(fenced_doc,
             "fenced(device, bytes)\n--\n\n"
             "Memory of a CUDA device with nothing mapped before and behind it: its address, and "
             "how many\nbytes it has. Never given back.");

PyDoc_STRVAR(scratch_from_doc,
             "scratch_from(maker)\n--\n\n"
             "Scratch on a device lies where maker(name, device_index, bytes) says, an address; "
             "None:\nwherever torch puts it.");

PyDoc_STRVAR(report_crashes_doc,
             "report_crashes(fd)\n--\n\nA signal that ends the process first says why, in JSON.");

static PyMethodDef methods[] = {
    {"attach", attach, METH_VARARGS, attach_doc},
    {"learn", learn, METH_O, learn_doc},
    {"learn_tangent", learn_tangent, METH_O, learn_tangent_doc},
    {"learn_state", learn_state, METH_NOARGS, learn_state_doc},
    {"learn_autocast", learn_autocast, METH_NOARGS, learn_autocast_doc},
    {"expect", expect, METH_VARARGS, expect_doc},
    {"learnt", learnt_parts, METH_NOARGS, learnt_doc},
    {"set_mode", set_mode, METH_O, set_mode_doc},
    {"load_module", load_module, METH_O, load_module_doc},
    {"load_source", load_source, METH_VARARGS, load_source_doc},
    {"functions", functions_of, METH_O, functions_doc},
    {"prototype", prototype, METH_VARARGS, prototype_doc},
    {"find", find, METH_VARARGS, find_doc},
    {"gradient", gradient, METH_VARARGS, gradient_doc},
    {"describe", describe, METH_VARARGS, describe_doc},
    {"infer", infer, METH_VARARGS, infer_doc},
    {"parameters", parameters, METH_VARARGS, parameters_doc},
    {"plan", plan_call, METH_VARARGS, plan_doc},
    {"tune_choices", tuning_choices, METH_VARARGS, tune_choices_doc},
    {"tune_force", tuning_force, METH_VARARGS, tune_force_doc},
    {"tune_forget", tuning_forget, METH_VARARGS, tune_forget_doc},
    {"tune_path", tuning_path, METH_VARARGS, tune_path_doc},
    {"tune_key", tuning_key, METH_VARARGS, tune_key_doc},
    {"copy", copy_bytes, METH_VARARGS, copy_doc},
    {"sample", sample_dims, METH_VARARGS, sample_doc},
    {"trial", trial_call, METH_VARARGS, trial_doc},
    {"trial_together", trial_together, METH_VARARGS, trial_together_doc},
    {"watch", trial_watch, METH_NOARGS, watch_doc},
    {"conflicts", trial_conflicts, METH_NOARGS, conflicts_doc},
    {"reserve", trial_reserve, METH_VARARGS, reserve_doc},
    {"fenced", trial_fenced, METH_VARARGS, fenced_doc},
    {"scratch_from", trial_scratch_from, METH_O, scratch_from_doc},
    {"report_crashes", trial_report_crashes, METH_O, report_crashes_doc},
    {"suggest", suggest, METH_VARARGS, suggest_doc},
    {"operators", operators, METH_NOARGS, operators_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_wick",
                                        "Wick's C core, for Python.",
                                        -1,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__wick(void);
PyMODINIT_FUNC PyInit__wick(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module || operator_init_type(module) < 0) return NULL;
    extension.build_error =
        PyErr_NewExceptionWithDoc("wick.BuildError",
                                  "An operator's source does not build, or a module does not load. "
                                  "The first line begins with\n"
                                  "file and line of the author's file.",
                                  PyExc_RuntimeError, NULL);
    if (!extension.build_error) return NULL;
    Py_INCREF(extension.build_error);
    if (PyModule_AddObject(module, "BuildError", extension.build_error) < 0) return NULL;
    if (PyModule_AddStringConstant(module, "__version__", wick_version()) < 0) return NULL;
    return module;
}
