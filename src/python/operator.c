/* operator.c -- an operator as Python sees it: a builtin function whose `__self__` knows the rest
 *
 * A builtin function object is the cheapest thing Python can call, and torch.compile can be told
 * what it stands for.
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

/* Pickling a builtin function asks for its `__self__` and takes the attribute of its name from
 * there. */
static PyObject *get_function(PyObject *self, void *unused)
{
    (void)unused;
    return operator_function(((operator_object *)self)->op);
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
                                {"function", get_function, NULL, "what is called", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

/* Python keeps functions in void pointers, which ISO C does not. */
static PyType_Slot slots[] = {{Py_tp_dealloc, __extension__(void *) operator_dealloc},
                              {Py_tp_getset, getters},
                              {Py_tp_repr, __extension__(void *) operator_repr},
                              {Py_tp_doc, "What a Wick operator knows of itself."},
                              {0, NULL}};

static PyType_Spec spec = {.name = "_wick.Operator",
                           .basicsize = sizeof(operator_object),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

int operator_init_type(void)
{
    operator_type = (PyTypeObject *)PyType_FromSpec(&spec);
    extension.functions = PyDict_New();
    return operator_type && extension.functions ? 0 : -1;
}

/* "relu(x, *, out=None)\n--\n\n" makes inspect.signature work; then signature and head comment. */
static char *make_doc(const wick_op *op)
{
    const wick_op_def *def = wick_op_current(op);
    wick_text doc = {0};
    wick_signature_print_python(&doc, def->sig);
    wick_text_add(&doc, "\n--\n\n");
    wick_signature_print_call(&doc, def->sig);
    wick_text_printf(&doc, "\n\n%s", def->doc);
    char *copy = doc.failed ? NULL : wick_strdup(wick_text_str(&doc));
    wick_text_free(&doc);
    return copy;
}

static bool remember(wick_op *op, PyObject *function)
{
    PyObject *key = PyLong_FromVoidPtr(op);
    bool done = key && PyDict_SetItem(extension.functions, key, function) == 0;
    Py_XDECREF(key);
    return done;
}

PyObject *operator_function(wick_op *op)
{
    PyObject *key = PyLong_FromVoidPtr(op);
    PyObject *known = key ? PyDict_GetItemWithError(extension.functions, key) : NULL;
    Py_XDECREF(key);
    Py_XINCREF(known);
    return known || PyErr_Occurred() ? known : operator_new_function(op);
}

PyObject *operator_new_function(wick_op *op)
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
    PyObject *home = PyUnicode_FromString("wick.ops");
    PyObject *function =
        self->doc && home ? PyCFunction_NewEx(&self->method, (PyObject *)self, home) : NULL;
    if (!self->doc) PyErr_NoMemory();
    Py_XDECREF(home);
    Py_DECREF(self);
    if (function && !remember(op, function)) Py_CLEAR(function);
    return function;
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
