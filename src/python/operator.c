/* operator.c -- an operator as Python sees it: a builtin function whose `__self__` knows the rest
 *
 * A builtin function object is the cheapest thing Python can call, and torch.compile can be told
 * what it stands for. Each operator has one, for as long as the process lives, whichever way it is
 * looked up: they are compared and hashed by identity.
 */
#include "extension.h"

#include <string.h>

static PyTypeObject *operator_type;

static void operator_dealloc(PyObject *object)
{
    operator_object *self = (operator_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->overload);
    Py_XDECREF(self->gradient);
    wick_free(self->doc);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* Text made by one of the signature's printers. */
typedef void (*printer)(wick_text *, const wick_signature *);

static PyObject *printed(PyObject *object, printer print)
{
    wick_text text = {0};
    print(&text, wick_op_current(((operator_object *)object)->op)->sig);
    PyObject *result = text.failed ? PyErr_NoMemory() : PyUnicode_FromString(wick_text_str(&text));
    wick_text_free(&text);
    return result;
}

static void print_prototype(wick_text *out, const wick_signature *sig)
{
    wick_signature_print_prototype(out, sig, "cpu", true);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(wick_op_name(((operator_object *)self)->op));
}

static PyObject *get_namespace(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(wick_op_namespace(((operator_object *)self)->op));
}

static PyObject *get_signature(PyObject *self, void *unused)
{
    (void)unused;
    return printed(self, wick_signature_print);
}

static PyObject *get_schema(PyObject *self, void *unused)
{
    (void)unused;
    return printed(self, wick_signature_print_schema);
}

static PyObject *get_prototype(PyObject *self, void *unused)
{
    (void)unused;
    return printed(self, print_prototype);
}

static PyObject *get_stub(PyObject *self, void *unused)
{
    (void)unused;
    return printed(self, wick_signature_print_stub);
}

static PyObject *get_doc(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_DecodeUTF8(wick_op_doc(((operator_object *)self)->op),
                                (Py_ssize_t)strlen(wick_op_doc(((operator_object *)self)->op)),
                                "replace");
}

static PyObject *get_file(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_DecodeFSDefault(wick_op_file(((operator_object *)self)->op));
}

/* A builtin function is pickled as getattr(its __self__, its name), so what stands for us in a
 * pickle is the place where the reader will find the operator: wick.ops._reference. */
static PyObject *operator_reduce(PyObject *object, PyObject *unused)
{
    const wick_op *op = ((operator_object *)object)->op;
    const char *file = wick_op_file(op), *slash = strrchr(file, '/');
    (void)unused;
    PyObject *ops = PyImport_ImportModule("wick.ops");
    PyObject *make = ops ? PyObject_GetAttrString(ops, "_reference") : NULL;
    PyObject *name = make ? PyUnicode_DecodeFSDefault(slash ? slash + 1 : file) : NULL;
    PyObject *result = name ? Py_BuildValue("(O(sO))", make, op->ns, name) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(make);
    Py_XDECREF(ops);
    return result;
}

static PyObject *operator_repr(PyObject *object)
{
    operator_object *self = (operator_object *)object;
    return PyUnicode_FromFormat("<wick operator %s::%s>", self->op->ns, self->op->name);
}

static PyGetSetDef getters[] = {{"name", get_name, NULL, "the operator's name", NULL},
                                {"namespace", get_namespace, NULL, "where torch.ops has it", NULL},
                                {"signature", get_signature, NULL, "the signature, complete", NULL},
                                {"schema", get_schema, NULL, "as torch has it", NULL},
                                {"prototype", get_prototype, NULL, "of its C function", NULL},
                                {"stub", get_stub, NULL, "its line in a .pyi file", NULL},
                                {"doc", get_doc, NULL, "the comment at the head of its file", NULL},
                                {"file", get_file, NULL, "the source it was built from", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef methods[] = {{"__reduce__", operator_reduce, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};

/* Python keeps functions in void pointers, which ISO C does not. */
static PyType_Slot slots[] = {{Py_tp_dealloc, __extension__(void *) operator_dealloc},
                              {Py_tp_getset, getters},
                              {Py_tp_methods, methods},
                              {Py_tp_repr, __extension__(void *) operator_repr},
                              {Py_tp_doc, "What a Wick operator knows of itself."},
                              {0, NULL}};

static PyType_Spec spec = {.name = "wick._wick.Operator",
                           .basicsize = sizeof(operator_object),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int operator_init_type(PyObject *module)
{
    operator_type = (PyTypeObject *)PyType_FromSpec(&spec);
    extension.functions = PyDict_New();
    if (!operator_type || !extension.functions) return -1;
    Py_INCREF(operator_type);
    return PyModule_AddObject(module, "Operator", (PyObject *)operator_type);
}

/* "relu(x, *, out=None)\n--\n\n" makes inspect.signature work; the documentation follows. NULL with
 * an exception set. */
static char *make_doc(const wick_op *op)
{
    const wick_op_def *def = wick_op_current(op);
    wick_doc about = {.head = def->doc,
                      .first = def->stands_for ? def->stands_for->sig->name : NULL,
                      .backward = def->backward ? wick_op_current(def->backward)->sig : NULL};
    wick_text text = {0};
    wick_signature_print_python(&text, def->sig);
    wick_text_add(&text, "\n--\n\n");
    wick_signature_print_doc(&text, def->sig, &about);
    /* A comment may be in any encoding, and Python shows what is UTF-8. */
    PyObject *readable =
        text.failed ? PyErr_NoMemory()
                    : PyUnicode_DecodeUTF8(wick_text_str(&text), (Py_ssize_t)text.size, "replace");
    const char *bytes = readable ? PyUnicode_AsUTF8AndSize(readable, NULL) : NULL;
    char *copy = bytes ? wick_strdup(bytes) : NULL;
    if (bytes && !copy) PyErr_NoMemory();
    Py_XDECREF(readable);
    wick_text_free(&text);
    return copy;
}

/* "wick.ops" and, for what does not come with Wick, the namespace. */
static PyObject *home_of(const wick_op *op)
{
    if (!strcmp(op->ns, "wick")) return PyUnicode_FromString("wick.ops");
    return PyUnicode_FromFormat("wick.ops.%s", op->ns);
}

static PyObject *function_new(wick_op *op)
{
    operator_object *self = PyObject_New(operator_object, operator_type);
    if (!self) return NULL;
    self->op = op;
    self->overload = self->gradient = NULL;
    self->changes = extension.changes;
    self->doc = make_doc(op);
    self->method = (PyMethodDef){.ml_name = op->name,
                                 .ml_meth = (PyCFunction)(void (*)(void))direct_call,
                                 .ml_flags = METH_FASTCALL | METH_KEYWORDS,
                                 .ml_doc = self->doc};
    PyObject *home = self->doc ? home_of(op) : NULL;
    PyObject *function = home ? PyCFunction_NewEx(&self->method, (PyObject *)self, home) : NULL;
    Py_XDECREF(home);
    Py_DECREF(self);
    return function;
}

PyObject *operator_function(wick_op *op)
{
    PyObject *key = PyLong_FromVoidPtr(op);
    PyObject *function = key ? PyDict_GetItemWithError(extension.functions, key) : NULL;
    Py_XINCREF(function);
    if (key && !function && !PyErr_Occurred()) {
        function = function_new(op);
        if (function && PyDict_SetItem(extension.functions, key, function) < 0) Py_CLEAR(function);
    }
    Py_XDECREF(key);
    return function;
}

bool operator_refresh(PyObject *function)
{
    operator_object *self = (operator_object *)PyCFunction_GetSelf(function);
    char *doc = make_doc(self->op);
    if (!doc) return false;
    wick_free(self->doc);
    self->method.ml_doc = self->doc = doc;
    return true;
}

/* What `wick._calls` says of the operator, asked again after every load. */
static PyObject *ask_once(operator_object *self, PyObject **known, const char *question)
{
    if (self->changes != extension.changes) {
        Py_CLEAR(self->overload);
        Py_CLEAR(self->gradient);
        self->changes = extension.changes;
    }
    if (!*known)
        *known =
            PyObject_CallMethod(extension.helpers, question, "ss", self->op->ns, self->op->name);
    return *known;
}

PyObject *operator_overload(operator_object *self)
{
    return ask_once(self, &self->overload, "overload");
}

PyObject *operator_gradient(operator_object *self)
{
    return ask_once(self, &self->gradient, "gradient");
}
