/* register.c -- operators enter torch's dispatcher, and leave it again
 *
 * A registration is what torch was told: a schema, and two kernels out of the pool of trampolines.
 * It belongs to one operator and is kept when the operator is loaded again with the same schema.
 * With another schema the old registration is withdrawn and its slot waits for the next operator;
 * only graphs that captured it could still call it, and torch answers those itself.
 */
#include "bridge.h"
#include "trampolines.h"

#include <pthread.h>
#include <string.h>

enum { N_LIBRARIES = 5 };

struct wick_registration {
    wick_op *op;
    _Atomic(wick_op_def *) def; /* whose schema torch has */
    char *schema;               /* "relu(Tensor x) -> Tensor" */
    char *twin;                 /* "wick_raw::local__relu" */
    int slot;
    bool left; /* torch no longer knows it */
    torch_library_handle library[N_LIBRARIES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wick_registration *slots[WICK_MAX_REGISTRATIONS];

wick_registration *wick_registration_at(int index) { return slots[index]; }
const wick_op *wick_registration_op(const wick_registration *r) { return r->op; }
const wick_signature *wick_registration_signature(const wick_registration *r)
{
    return atomic_load_explicit(&r->def, memory_order_acquire)->sig;
}
const char *wick_registration_schema(const wick_registration *r) { return r->schema; }

wick_op_def *wick_registration_current(wick_ctx *ctx, wick_registration *r)
{
    wick_op_def *now = wick_op_current(r->op);
    if (now == r->def) return now;
    wick_text schema = {0};
    wick_signature_print_schema(&schema, now->sig);
    bool same = !schema.failed && !strcmp(wick_text_str(&schema), r->schema);
    if (!same)
        wick_fail(ctx, WICK_EINVAL,
                  "%s::%s was loaded again with another signature: it was %s, it is %s; compile or "
                  "trace the caller again",
                  r->op->ns, r->op->name, r->schema, wick_text_str(&schema));
    wick_text_free(&schema);
    return same ? now : NULL;
}

bool wick_boxed_forward(wick_registration *r, torch_ivalue *stack)
{
    wick_boxed_fail("");
    if (shim.torch_call_dispatcher(r->twin, "", stack, 0) == 0) return true;
    const char *what = shim.torch_exception_get_what_without_backtrace
                           ? shim.torch_exception_get_what_without_backtrace()
                           : NULL;
    if (what && *what) return wick_boxed_fail(what);
    if (*wick_boxed_error()) return false; /* our own kernel's words */
    wick_text text = {0};
    wick_text_printf(&text, "%s: torch could not run it (its words went to the error output)",
                     r->op->name);
    wick_boxed_fail(wick_text_str(&text));
    wick_text_free(&text);
    return false;
}

/* ---- entering ---- */

static torch_error define(torch_library_handle library, const char *schema)
{
    if (!shim.torch_library_def_with_tags || !shim.torch_tag_pt2_compliant_tag)
        return shim.aoti_torch_library_def(library, schema);
    int32_t tag = shim.torch_tag_pt2_compliant_tag();
    return shim.torch_library_def_with_tags(library, schema, &tag, 1);
}

/* Two operators, three kernels: see bridge.h. Each through a library object of its own, whose
 * deletion undoes it. */
static torch_error enter(wick_registration *r, const char *raw_schema)
{
    const char *any = "CompositeExplicitAutograd", *raw = strstr(r->twin, "::") + 2;
    torch_kernel backend = wick_trampoline_backend(r->slot), gate = wick_trampoline_gate(r->slot);
    torch_library_handle *l = r->library;

    torch_error e = shim.aoti_torch_library_init_fragment("wick_raw", "wick", 0, &l[0]);
    e = e || define(l[0], raw_schema);
    e = e || shim.aoti_torch_library_init_impl("wick_raw", any, "wick", 0, &l[1]);
    e = e || shim.torch_library_impl(l[1], raw, backend, 0);
    e = e || shim.aoti_torch_library_init_fragment(r->op->ns, "wick", 0, &l[2]);
    e = e || define(l[2], r->schema);
    e = e || shim.aoti_torch_library_init_impl(r->op->ns, any, "wick", 0, &l[3]);
    e = e || shim.torch_library_impl(l[3], r->op->name, backend, 0);
    if (!e && wick_torch_internals_usable()) {
        e = shim.aoti_torch_library_init_impl(r->op->ns, "Autograd", "wick", 0, &l[4]);
        e = e || shim.torch_library_impl(l[4], r->op->name, gate, 0);
    }
    return e;
}

/* Leaves torch. What is left keeps its slot until that is needed: a thread may still be on its way
 * through the trampoline, and is told what happened. */
static void leave(wick_registration *r)
{
    for (int i = N_LIBRARIES; i-- > 0;)
        if (r->library[i]) shim.aoti_torch_delete_library_object(r->library[i]);
    r->left = true;
}

static void registration_free(wick_registration *r)
{
    if (!r) return;
    wick_free(r->schema);
    wick_free(r->twin);
    wick_free(r);
}

/* Slots are taken in turn, so that one that was given up rests as long as possible. */
static int free_slot(void)
{
    static int next;
    for (int i = 0; i < WICK_MAX_REGISTRATIONS; i++) {
        int slot = (next + i) % WICK_MAX_REGISTRATIONS;
        if (slots[slot] && !slots[slot]->left) continue;
        registration_free(slots[slot]);
        slots[slot] = NULL;
        next = slot + 1;
        return slot;
    }
    return -1;
}

static wick_registration *registration_new(wick_op *op, const char *schema)
{
    wick_text twin = {0};
    wick_registration *r = wick_calloc(1, sizeof *r);
    wick_text_printf(&twin, "wick_raw::%s__%s", op->ns, op->name);
    if (r) {
        r->op = op;
        r->def = wick_op_current(op);
        r->schema = wick_strdup(schema);
        r->twin = twin.failed ? NULL : wick_strdup(wick_text_str(&twin));
    }
    wick_text_free(&twin);
    if (r && r->schema && r->twin) return r;
    registration_free(r);
    return NULL;
}

static wick_status enter_anew(wick_ctx *ctx, wick_op *op, const char *schema)
{
    wick_text raw_schema = {0};
    int slot = free_slot();
    if (slot < 0)
        return wick_fail(ctx, WICK_ENOTSUP,
                         "%s::%s: %d operators are loaded, and there is room for no more", op->ns,
                         op->name, WICK_MAX_REGISTRATIONS);
    wick_registration *r = registration_new(op, schema);
    if (!r) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    r->slot = slot;
    slots[slot] = r;
    wick_text_printf(&raw_schema, "%s%s", strstr(r->twin, "::") + 2, schema + strlen(op->name));
    wick_status s = raw_schema.failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
    if (s == WICK_OK && enter(r, wick_text_str(&raw_schema)) != 0)
        s = wick_fail(ctx, WICK_ETORCH, "torch refuses operator %s::%s with schema %s: %s", op->ns,
                      op->name, schema,
                      shim.torch_exception_get_what_without_backtrace
                          ? shim.torch_exception_get_what_without_backtrace()
                          : "is the name taken by another library?");
    wick_text_free(&raw_schema);
    if (s == WICK_OK) {
        op->bridge = r;
        return s;
    }
    leave(r);
    slots[slot] = NULL;
    registration_free(r);
    return s;
}

wick_status wick_torch_register(wick_ctx *ctx, wick_op *op, bool *changed)
{
    wick_text schema = {0};
    wick_status s = WICK_OK;

    *changed = false;
    wick_signature_print_schema(&schema, wick_op_current(op)->sig);
    if (schema.failed) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    pthread_mutex_lock(&lock);
    wick_registration *old = op->bridge;
    if (old && !strcmp(old->schema, wick_text_str(&schema))) {
        old->def = wick_op_current(op);
    } else {
        *changed = old != NULL;
        if (old) leave(old);
        op->bridge = NULL;
        s = enter_anew(ctx, op, wick_text_str(&schema));
    }
    pthread_mutex_unlock(&lock);
    wick_text_free(&schema);
    return s;
}
