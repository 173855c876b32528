/* register.c -- operators enter torch's dispatcher, and leave it again
 *
 * A registration is what torch was told: a schema, and three kernels out of the pool of
 * trampolines. It belongs to one operator and is kept when the operator is loaded again with the
 * same schema. With another schema the old registration is withdrawn and its slot waits for the
 * next operator; who still holds it meets the new schema, and torch answers those itself.
 */
#include "bridge.h"
#include "trampolines.h"

#include <pthread.h>
#include <string.h>

/* A library object per kernel: its deletion undoes it. The gate is on the autograd key of each
 * device, not on the one for all of them: that is where torch.library.register_autograd puts a
 * gradient that is written by hand, and torch would warn of the two. */
enum { DEFINITION, BACKEND, BATCH, OLD_BATCH, GATES, N_GATES = 3, N_LIBRARIES = GATES + N_GATES };
static const char *const gate_keys[N_GATES] = {"AutogradCPU", "AutogradCUDA", "AutogradMeta"};

struct wick_registration {
    wick_op *op;
    _Atomic(wick_op_def *) def; /* whose schema torch has */
    char *schema;               /* "relu(Tensor x) -> Tensor" */
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

wick_op_def *wick_registration_unchanged(const wick_registration *r)
{
    wick_op_def *def = atomic_load_explicit(&r->def, memory_order_acquire);
    return def == wick_op_current(r->op) ? def : NULL;
}

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

/* ---- entering ---- */

static torch_error define(torch_library_handle library, const char *schema)
{
    if (!shim.torch_library_def_with_tags || !shim.torch_tag_pt2_compliant_tag)
        return shim.aoti_torch_library_def(library, schema);
    int32_t tag = shim.torch_tag_pt2_compliant_tag();
    return shim.torch_library_def_with_tags(library, schema, &tag, 1);
}

static torch_error add_kernel(wick_registration *r, int library, const char *key,
                              torch_kernel kernel)
{
    torch_library_handle *l = &r->library[library];
    torch_error e = shim.aoti_torch_library_init_impl(r->op->ns, key, "wick", 0, l);
    return e || shim.torch_library_impl(*l, r->op->name, kernel, 0);
}

static torch_error enter(wick_registration *r)
{
    torch_library_handle *definition = &r->library[DEFINITION];
    torch_error e = shim.aoti_torch_library_init_fragment(r->op->ns, "wick", 0, definition);
    e = e || define(*definition, r->schema);
    e = e || add_kernel(r, BACKEND, "CompositeExplicitAutograd", wick_trampoline_backend(r->slot));
    if (e || !wick_torch_internals_usable()) return e; /* then Python adds the others */
    e = add_kernel(r, BATCH, "FuncTorchBatched", wick_trampoline_batch(r->slot));
    for (int i = 0; i < N_GATES; i++)
        e = e || add_kernel(r, GATES + i, gate_keys[i], wick_trampoline_gate(r->slot));
    /* The vmap of is_grads_batched, which torch means to give up: a later one may not have it. */
    if (!e) (void)add_kernel(r, OLD_BATCH, "Batched", wick_trampoline_batch(r->slot));
    return e;
}

/* Whoever holds an overload of torch's holds a pointer to torch's entry of that name, which is
 * freed with its last kernel. One that stays keeps the entry, and such a call meets the new schema:
 * it is on the key of a device that does not exist, so that it is never run. A torch that no longer
 * has the key frees the entry. */
static void anchor(const wick_registration *r)
{
    torch_library_handle l = NULL;
    if (r->op->anchor) return;
    torch_error e = shim.aoti_torch_library_init_impl(r->op->ns, "FPGA", "wick", 0, &l);
    e = e || shim.torch_library_impl(l, r->op->name, wick_trampoline_backend(r->slot), 0);
    if (e && l) shim.aoti_torch_delete_library_object(l);
    if (!e) r->op->anchor = l;
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
    wick_registration *r = wick_calloc(1, sizeof *r);
    if (!r) return NULL;
    r->op = op;
    r->def = wick_op_current(op);
    r->schema = wick_strdup(schema);
    if (r->schema) return r;
    registration_free(r);
    return NULL;
}

static wick_status enter_anew(wick_ctx *ctx, wick_op *op, const char *schema)
{
    int slot = free_slot();
    if (slot < 0)
        return wick_fail(ctx, WICK_ENOTSUP,
                         "%s::%s: %d operators are loaded, and there is room for no more", op->ns,
                         op->name, WICK_MAX_REGISTRATIONS);
    wick_registration *r = registration_new(op, schema);
    if (!r) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    r->slot = slot;
    slots[slot] = r;
    if (enter(r) == 0) {
        op->bridge = r;
        return WICK_OK;
    }
    wick_status s = wick_fail(ctx, WICK_ETORCH, "torch refuses operator %s::%s with schema %s: %s",
                              op->ns, op->name, schema,
                              shim.torch_exception_get_what_without_backtrace
                                  ? shim.torch_exception_get_what_without_backtrace()
                                  : "is the name taken by another library?");
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
        if (old) {
            anchor(old);
            leave(old);
        }
        op->bridge = NULL;
        s = enter_anew(ctx, op, wick_text_str(&schema));
    }
    pthread_mutex_unlock(&lock);
    wick_text_free(&schema);
    return s;
}
