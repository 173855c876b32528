/* extension.h -- the CPython extension `_wick`: loading, and calling operators with the least in
 * between
 *
 *   extension.c   the module: load, find, attach to torch
 *   operator.c    an operator as a builtin function object, and what it knows of itself
 *   direct.c      the call: arguments, the fast way and the way through torch.ops
 *   tensors.c     Python's tensors and torch's handles
 *   dlpack.c      the same through DLPack's public table, where torch's internals are not what we
 *                 expect
 *   hooks.c       what the bridge leaves to Python: gradients, the way below autograd, vmap
 *   describe.c    signatures as data
 *   plan.c        an operator's parameters, and shapes and bytes of a call that is made up
 *   copy.c        a plain copy, to measure bandwidth with
 *   samples.c     sizes that fit a signature, for `wick check`
 *   trials.c      guarded calls, for `wick check`
 *
 * The only folder that includes Python.h, and only the limited API of 3.10. What Python does better
 * stays in python/wick.
 */
#ifndef WICK_EXTENSION_H
#define WICK_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bridge.h"

#include <wick/build.h>

/* How calls reach tensors without the dispatcher. Chosen once, when torch is attached. */
typedef enum direct_mode {
    DIRECT_DISPATCHER, /* not at all: every call goes through torch.ops */
    DIRECT_DLPACK,     /* DLPack's table: public, a little slower */
    DIRECT_INTERNALS   /* handles inside Python's tensors */
} direct_mode;

/* What the extension knows of Python's torch; set once by attach. */
typedef struct extension_state {
    PyObject *tensor_type, *parameter_type;
    PyObject *helpers; /* module wick._calls: what is rare enough to be written in Python */
    PyObject *build_error;
    PyObject *functions; /* address of an operator: its function object */
    direct_mode mode;
    unsigned long changes; /* how often something was loaded: what Python knows of an operator may
                              be another since then */
} extension_state;
extern extension_state extension;

/* ---- operator.c ---- */

/* An operator's own object: the `__self__` of its builtin function. */
typedef struct operator_object {
    PyObject_HEAD wick_op *op;
    /* Looked up at the first call that needs them; may be NULL. */
    PyObject *overload;    /* torch.ops.<ns>.<name>.default */
    PyObject *gradient;    /* what makes a call that needs a gradient */
    unsigned long changes; /* extension.changes when they were */
    PyMethodDef method;
    char *doc;
} operator_object;

int operator_init_type(PyObject *module);
/* A new reference to the operator's function object, of which there is one: whoever knows it by its
 * identity, as torch.compile does, knows every way to it. */
PyObject *operator_function(wick_op *op);
/* The operator was loaded again: its function says so. False with an exception set. */
bool operator_refresh(PyObject *function);
/* The overload and the gradient, borrowed; NULL with an exception set. */
PyObject *operator_overload(operator_object *self);
PyObject *operator_gradient(operator_object *self);

/* ---- direct.c ---- */

PyObject *direct_call(PyObject *self, PyObject *const *args, Py_ssize_t n_args, PyObject *keywords);

/* ---- tensors.c ---- */

/* Finds out whether torch's internals answer as expected. examples: list of (tensor, keys, kind).
 */
bool tensors_learn(PyObject *examples);
/* The handle inside a Python tensor, borrowed. Only in DIRECT_INTERNALS, and only for real tensors.
 */
torch_handle tensors_handle(PyObject *tensor);
/* A new Python tensor for a handle, which it consumes. NULL with an exception set. */
PyObject *tensors_wrap(torch_handle handle);
bool tensors_is_tensor(PyObject *object); /* a torch.Tensor or a subclass */
bool tensors_is_exact(PyObject *object);  /* torch.Tensor or Parameter itself */

/* ---- dlpack.c ---- */

/* Takes DLPack's exchange table from torch.Tensor; false when it has none. */
bool dlpack_attach(PyObject *tensor_type);
extern const wick_host dlpack_host;
/* Reads a tensor; false when it must take the way through torch.ops. */
bool dlpack_read(PyObject *tensor, wick_tensor *out);
/* A new Python tensor for one that dlpack_host made, which it consumes. */
PyObject *dlpack_wrap(wick_tensor *tensor);

/* ---- hooks.c ---- */

bool ask_python(wick_registration *r, wick_question question, torch_ivalue *stack);
bool raise_pending(void);

/* ---- describe.c: functions of the module ---- */

/* describe(namespace, name): inputs, outputs, dims and rules of the signature, as dicts and lists.
 */
PyObject *describe(PyObject *module, PyObject *args);
/* gradient(namespace, name): how the operator's backward is fed, and whose gradients it returns. */
PyObject *gradient(PyObject *module, PyObject *args);
/* parameters(namespace, name): the same for those who make calls up, with the type variables. */
PyObject *parameters(PyObject *module, PyObject *args);
/* infer(namespace, name, values, sizes): one (type, shape) per output, None for a plain number, and
 * the input on whose device they are (-1: the CPU), after every check of a call. A tensor is (type,
 * device, index, shape). sizes False: shapes are neither looked at nor inferred. */
PyObject *infer(PyObject *module, PyObject *args);

/* ---- plan.c: for benchmarks and tests, which make calls up ---- */

/* plan(namespace, name, dims, types, absent) */
PyObject *plan_call(PyObject *module, PyObject *args);

/* ---- tuning.c: for `wick tune` ---- */

/* tune_choices(namespace, name), tune_force(namespace, name, values), tune_forget(namespace, name),
 * tune_path(namespace, name, device) and tune_key(namespace, name, types, dims). */
PyObject *tuning_choices(PyObject *module, PyObject *args);
PyObject *tuning_force(PyObject *module, PyObject *args);
PyObject *tuning_forget(PyObject *module, PyObject *args);
PyObject *tuning_path(PyObject *module, PyObject *args);
PyObject *tuning_key(PyObject *module, PyObject *args);

/* ---- copy.c ---- */

/* copy(to, from, bytes, grain, streaming, repeats) */
PyObject *copy_bytes(PyObject *module, PyObject *args);

/* ---- samples.c ---- */

/* sample(namespace, name, kind, seed, budget) */
PyObject *sample_dims(PyObject *module, PyObject *args);

/* ---- trials.c ---- */

/* trial(namespace, name, args, wanted, settings), trial_together(..., rounds), watch(),
 * conflicts(), reserve(label, bytes, written), fenced(device, bytes), scratch_from(maker) and
 * report_crashes(fd). */
PyObject *trial_call(PyObject *module, PyObject *args);
PyObject *trial_together(PyObject *module, PyObject *args);
PyObject *trial_watch(PyObject *module, PyObject *none);
PyObject *trial_conflicts(PyObject *module, PyObject *none);
PyObject *trial_reserve(PyObject *module, PyObject *args);
PyObject *trial_fenced(PyObject *module, PyObject *args);
PyObject *trial_scratch_from(PyObject *module, PyObject *maker);
PyObject *trial_report_crashes(PyObject *module, PyObject *number);

/* Raises what a context holds: BuildError for what does not build or load, RuntimeError otherwise.
 * Returns NULL. */
PyObject *raise_status(const wick_ctx *ctx, wick_status status);

#endif /* WICK_EXTENSION_H */
