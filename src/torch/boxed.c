/* boxed.c -- torch's calling convention
 *
 * torch hands a kernel a stack of 64-bit words that the kernel owns: every handle, box, string and
 * list on it must be given back, whatever happens. Results, owned by torch afterwards, go to the
 * front of the same stack. An error is raised by a C++ exception through our frame, so it is the
 * very last act, when nothing is owned any more; its words wait in a thread-local buffer.
 */
#include "bridge.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[4096];
static wick_hook ask;
static wick_raiser raiser;

void wick_torch_set_hook(wick_hook hook, wick_raiser of_exceptions)
{
    ask = hook;
    raiser = of_exceptions;
}

bool wick_boxed_fail(const char *message)
{
    snprintf(last_error, sizeof last_error, "%s", message);
    wick_make_utf8(last_error); /* Python raises another error of words that are none */
    return false;
}

/* Throws. Whoever calls this owns nothing. */
static void raise_error(void)
{
    bool (*throwing)(void) = shim._ZN2at4_ops19is_vulkan_available4callEv;
    if (throwing && raiser && raiser()) throwing();
    shim.aoti_torch_check(false, "wick", "wick", 0, last_error);
}

/* ---- encoding ---- */

static torch_handle as_handle(torch_ivalue v)
{
    torch_handle h;
    memcpy(&h, &v, sizeof h);
    return h;
}

static torch_ivalue of_pointer(const void *p)
{
    torch_ivalue v = 0;
    memcpy(&v, &p, sizeof p);
    return v;
}

torch_ivalue *torch_box_new(torch_ivalue value)
{
    torch_ivalue *box = NULL;
    if (shim.torch_new_stable_ivalue)
        shim.torch_new_stable_ivalue(&box);
    else
        box = shim._Znwm(sizeof *box);
    if (box) *box = value;
    return box;
}

void torch_box_free(torch_ivalue *box)
{
    if (!box) return;
    if (shim.torch_delete_stable_ivalue)
        shim.torch_delete_stable_ivalue(box);
    else
        shim._ZdlPv(box);
}

static torch_ivalue *as_box(torch_ivalue v)
{
    torch_ivalue *box;
    memcpy(&box, &v, sizeof box);
    return box;
}

/* ---- decoding ---- */

/* C would see a text with a zero inside cut short. */
static wick_status read_string(wick_ctx *ctx, const char *name, torch_ivalue v, wick_value *out)
{
    torch_string_handle string;
    size_t n = 0;
    memcpy(&string, &v, sizeof string);
    out->kind = WICK_VALUE_STR;
    if (shim.torch_string_c_str(string, &out->as.s) != 0)
        return wick_fail(ctx, WICK_ETORCH, "torch did not hand over a string");
    if (shim.torch_string_length && shim.torch_string_length(string, &n) == 0 &&
        n != strlen(out->as.s))
        return wick_fail(ctx, WICK_EINVAL, "%s has a zero character inside, expected a str without",
                         name);
    return WICK_OK;
}

static wick_status read_shape(wick_ctx *ctx, wick_arena *arena, const char *name, torch_ivalue v,
                              wick_value *out)
{
    torch_list_handle list;
    size_t n = 0;
    memcpy(&list, &v, sizeof list);
    shim.torch_list_size(list, &n);
    if (n > WICK_MAX_RANK)
        return wick_fail(ctx, WICK_EINVAL, "%s has %zu dimensions, expected at most %d", name, n,
                         WICK_MAX_RANK);
    int64_t *size = wick_arena_alloc(arena, (n + 1) * sizeof *size);
    if (!size) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        torch_ivalue item = 0;
        shim.torch_list_get_item(list, i, &item);
        size[i] = (int64_t)item;
    }
    out->kind = WICK_VALUE_SHAPE;
    out->as.tensor.dim = (int32_t)n;
    out->as.tensor.size = size;
    return WICK_OK;
}

static wick_status read_tensor(wick_ctx *ctx, const char *name, torch_ivalue v, wick_value *out)
{
    torch_handle handle = as_handle(v);
    out->kind = WICK_VALUE_TENSOR;
    if (wick_torch_kind(handle) == WICK_TORCH_SPECIAL)
        return wick_torch_read(ctx, name, handle, &out->as.tensor);
    wick_torch_read_dense(handle, &out->as.tensor);
    return out->as.tensor.dim <= WICK_MAX_RANK
               ? WICK_OK
               : wick_torch_read(ctx, name, handle, &out->as.tensor);
}

static wick_status read_argument(wick_ctx *ctx, wick_arena *arena, const wick_param *p,
                                 torch_ivalue v, wick_value *out)
{
    out->kind = WICK_VALUE_NONE;
    switch (p->kind) {
    case WICK_KIND_TENSOR:
        if (!p->optional) return read_tensor(ctx, p->name, v, out);
        return v ? read_tensor(ctx, p->name, *as_box(v), out) : WICK_OK;
    case WICK_KIND_SHAPE: return read_shape(ctx, arena, p->name, v, out);
    case WICK_KIND_INT:
        out->kind = WICK_VALUE_INT;
        out->as.i = (int64_t)v;
        return WICK_OK;
    case WICK_KIND_FLOAT:
        out->kind = WICK_VALUE_FLOAT;
        memcpy(&out->as.f, &v, sizeof out->as.f);
        return WICK_OK;
    case WICK_KIND_BOOL:
        out->kind = WICK_VALUE_BOOL;
        out->as.b = (v & 0xff) != 0;
        return WICK_OK;
    default: return read_string(ctx, p->name, v, out);
    }
}

/* ---- giving back ---- */

static void release_argument(const wick_param *p, torch_ivalue v)
{
    torch_string_handle string;
    torch_list_handle list;
    switch (p->kind) {
    case WICK_KIND_TENSOR:
        if (!p->optional) {
            shim.aoti_torch_delete_tensor_object(as_handle(v));
        } else if (v) {
            shim.aoti_torch_delete_tensor_object(as_handle(*as_box(v)));
            torch_box_free(as_box(v));
        }
        return;
    case WICK_KIND_SHAPE:
        memcpy(&list, &v, sizeof list);
        shim.torch_delete_list(list);
        return;
    case WICK_KIND_STR:
    case WICK_KIND_CHOICE:
        memcpy(&string, &v, sizeof string);
        shim.torch_delete_string(string);
        return;
    default: return;
    }
}

static void release_arguments(const wick_signature *sig, const torch_ivalue *stack)
{
    for (int i = 0; i < sig->n_inputs; i++)
        release_argument(&sig->inputs[i], stack[i]);
}

/* Boxes for the optional results, while it is still possible to fail: then no result is kept. */
static wick_status make_boxes(wick_ctx *ctx, const wick_signature *sig, const wick_value *results,
                              torch_ivalue **boxes)
{
    bool failed = false;
    for (int i = 0; i < sig->n_outputs; i++) {
        const wick_param *p = &sig->outputs[i];
        bool boxed =
            p->kind == WICK_KIND_TENSOR && p->optional && results[i].kind == WICK_VALUE_TENSOR;
        boxes[i] = boxed && !failed ? torch_box_new(of_pointer(results[i].as.tensor.handle)) : NULL;
        failed = failed || (boxed && !boxes[i]);
    }
    for (int i = 0; i < sig->n_outputs && failed; i++) {
        torch_box_free(boxes[i]);
        if (results[i].kind == WICK_VALUE_TENSOR)
            shim.aoti_torch_delete_tensor_object(results[i].as.tensor.handle);
    }
    return failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
}

static void write_result(const wick_param *p, const wick_value *r, torch_ivalue *box,
                         torch_ivalue *out)
{
    *out = 0;
    switch (p->kind) {
    case WICK_KIND_TENSOR:
        *out = of_pointer(p->optional ? (void *)box : r->as.tensor.handle);
        return;
    case WICK_KIND_FLOAT: memcpy(out, &r->as.f, sizeof r->as.f); return;
    case WICK_KIND_BOOL: *out = r->as.b; return;
    default: *out = (torch_ivalue)r->as.i; return;
    }
}

/* ---- kernels ---- */

/* The keyword-only want_x of optional outputs follow the inputs on the stack. */
static void read_wanted(const wick_signature *sig, const torch_ivalue *stack, wick_value *results)
{
    int at = sig->n_inputs;
    for (int i = 0; i < sig->n_outputs; i++) {
        results[i].kind = WICK_VALUE_NONE;
        results[i].owned = false;
        results[i].unwanted = sig->outputs[i].optional && (stack[at++] & 0xff) == 0;
    }
}

/* Everything from the arguments to the results. `args` holds the tensors if `tensors_read`. */
static bool run(wick_registration *r, torch_ivalue *stack, wick_value *args, bool tensors_read)
{
    const wick_signature *sig = wick_registration_signature(r);
    wick_value results[WICK_MAX_PARAMS];
    torch_ivalue *boxes[WICK_MAX_PARAMS];
    wick_arena arena = {0};
    wick_status s = WICK_OK;
    wick_ctx ctx;

    wick_ctx_init(&ctx, &wick_torch_services);
    const wick_op *op = wick_registration_op(r);
    wick_op_def *def = wick_registration_current(&ctx, r);
    if (!def) s = WICK_EINVAL;
    for (int i = 0; i < sig->n_inputs && s == WICK_OK; i++)
        if (!tensors_read || sig->inputs[i].kind != WICK_KIND_TENSOR)
            s = read_argument(&ctx, &arena, &sig->inputs[i], stack[i], &args[i]);
    if (s != WICK_OK && def) wick_ctx_prefix(&ctx, "%s: ", op->name);
    read_wanted(sig, stack, results);
    if (s == WICK_OK) {
        s = wick_op_invoke(&ctx, op, def, &wick_torch_host, args, results);
        if (s == WICK_OK && (s = make_boxes(&ctx, sig, results, boxes)) != WICK_OK)
            wick_ctx_prefix(&ctx, "%s: ", op->name);
    }
    release_arguments(sig, stack);
    for (int i = 0; i < sig->n_outputs && s == WICK_OK; i++)
        write_result(&sig->outputs[i], &results[i], boxes[i], &stack[i]);
    if (s != WICK_OK) wick_boxed_fail(wick_ctx_message(&ctx));
    wick_arena_free(&arena);
    wick_ctx_deinit(&ctx);
    return s == WICK_OK;
}

void wick_boxed_backend(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot)
{
    wick_value args[WICK_MAX_PARAMS];
    (void)n_args, (void)n_results;
    if (!run(wick_registration_at(slot), stack, args, false)) raise_error();
}

/* What the gate looks at in each tensor argument. */
typedef struct glance {
    bool plain;
    bool requires_grad;
    const char *dual; /* an argument with a forward-mode gradient, or NULL */
} glance;

static void look_at(const char *name, torch_handle handle, glance *g)
{
    bool defined = true;
    if (wick_torch_kind(handle) == WICK_TORCH_SPECIAL) {
        shim.aoti_torch_is_defined(handle, &defined);
        if (defined && wick_torch_is_dense(handle))
            g->plain = false; /* what is not, is refused here and now */
    }
    if (!defined) return;
    if (wick_torch_requires_grad(handle)) g->requires_grad = true;
    if (!g->dual && wick_torch_has_tangent(handle)) g->dual = name;
}

static glance look_at_arguments(const wick_signature *sig, const torch_ivalue *stack)
{
    glance g = {.plain = true};
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *p = &sig->inputs[i];
        if (p->kind != WICK_KIND_TENSOR) continue;
        if (!p->optional)
            look_at(p->name, as_handle(stack[i]), &g);
        else if (stack[i])
            look_at(p->name, as_handle(*as_box(stack[i])), &g);
    }
    return g;
}

/* A tangent that is lost would be a wrong derivative. */
static bool refuse_forward_mode(const wick_registration *r, const torch_ivalue *stack,
                                const char *name)
{
    wick_text words = {0};
    release_arguments(wick_registration_signature(r), stack);
    wick_text_printf(&words,
                     "%s: %s carries a forward-mode gradient (torch.func.jvp, forward_ad), and the "
                     "operator has none: use reverse mode, or detach the argument",
                     wick_registration_op(r)->name, name);
    wick_boxed_fail(wick_text_str(&words));
    wick_text_free(&words);
    return false;
}

/* Looks again, at what was not plain at the first glance. */
static bool decide(wick_registration *r, torch_ivalue *stack)
{
    wick_value args[WICK_MAX_PARAMS];
    glance g = look_at_arguments(wick_registration_signature(r), stack);
    if (g.dual) return refuse_forward_mode(r, stack, g.dual);
    if (g.requires_grad && shim.aoti_torch_grad_mode_is_enabled())
        return ask(r, WICK_ASK_GRADIENT, stack);
    if (g.plain && wick_torch_keys_are_plain()) return run(r, stack, args, false);
    return ask(r, WICK_ASK_BELOW, stack);
}

/* Reads the tensors, as long as they are plain. */
static bool read_plain(const wick_signature *sig, const torch_ivalue *stack, wick_value *args,
                       bool *requires_grad)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *p = &sig->inputs[i];
        if (p->kind != WICK_KIND_TENSOR) continue;
        bool present = !p->optional || stack[i];
        args[i].kind = present ? WICK_VALUE_TENSOR : WICK_VALUE_NONE;
        if (present && !wick_torch_glance(as_handle(p->optional ? *as_box(stack[i]) : stack[i]),
                                          &args[i].as.tensor, requires_grad))
            return false;
    }
    return true;
}

/* ---- the short way ---- */

static bool read_simply(const wick_simple *plan, const torch_ivalue *stack, wick_value *args,
                        bool *requires_grad)
{
    for (int i = 0; i < plan->n_inputs; i++) {
        wick_value *v = &args[i];
        switch (plan->inputs[i].kind) {
        case WICK_KIND_TENSOR:
            v->kind = WICK_VALUE_TENSOR;
            if (!wick_torch_glance(as_handle(stack[i]), &v->as.tensor, requires_grad)) return false;
            break;
        case WICK_KIND_FLOAT:
            v->kind = WICK_VALUE_FLOAT;
            memcpy(&v->as.f, &stack[i], sizeof v->as.f);
            break;
        case WICK_KIND_INT:
            v->kind = WICK_VALUE_INT;
            v->as.i = (int64_t)stack[i];
            break;
        default: v->kind = WICK_VALUE_BOOL; v->as.b = (stack[i] & 0xff) != 0;
        }
    }
    return true;
}

WICK_COLD static bool fail_simply(const wick_registration *r, wick_ctx *ctx)
{
    wick_ctx_prefix(ctx, "%s: ", wick_registration_op(r)->name);
    wick_boxed_fail(wick_ctx_message(ctx));
    wick_ctx_deinit(ctx);
    return false;
}

/* A whole call over plain tensors of one shape. False: not such a call, nothing has happened. */
WICK_HOT static bool run_simply(wick_registration *r, torch_ivalue *stack, bool *ok)
{
    wick_op_def *def = wick_registration_unchanged(r);
    wick_value args[WICK_SIMPLE_INPUTS], results[WICK_SIMPLE_OUTPUTS];
    bool done = false, requires_grad = false;
    wick_ctx ctx;

    if (!def || !def->simple.n_inputs || atomic_load_explicit(&def->broken, memory_order_acquire))
        return false;
    const wick_simple *plan = &def->simple;
    if (!read_simply(plan, stack, args, &requires_grad) || !wick_torch_keys_are_plain() ||
        (requires_grad && shim.aoti_torch_grad_mode_is_enabled()))
        return false;
    for (int i = 0; i < plan->n_outputs; i++) {
        results[i].kind = WICK_VALUE_NONE;
        results[i].owned = results[i].unwanted = false;
    }
    wick_ctx_init(&ctx, &wick_torch_services);
    wick_status s = wick_call_simple(&ctx, def, &wick_torch_host, args, results, &done);
    if (!done) return false;
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].kind == WICK_KIND_TENSOR)
            shim.aoti_torch_delete_tensor_object(as_handle(stack[i]));
    for (int i = 0; i < plan->n_outputs && s == WICK_OK; i++)
        stack[i] = of_pointer(results[i].as.tensor.handle);
    *ok = s == WICK_OK || fail_simply(r, &ctx);
    return true;
}

/* The same for a call of any form. */
static WICK_OUTLINE bool run_in_full(wick_registration *r, torch_ivalue *stack)
{
    wick_value args[WICK_MAX_PARAMS];
    bool requires_grad = false;
    bool plain = read_plain(wick_registration_signature(r), stack, args, &requires_grad) &&
                 wick_torch_keys_are_plain() &&
                 !(requires_grad && shim.aoti_torch_grad_mode_is_enabled());
    return plain ? run(r, stack, args, true) : decide(r, stack);
}

WICK_HOT void wick_boxed_gate(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot)
{
    wick_registration *r = wick_registration_at(slot);
    bool ok;
    (void)n_args, (void)n_results;
    if (!run_simply(r, stack, &ok)) ok = run_in_full(r, stack);
    if (!ok) raise_error();
}

void wick_boxed_batch(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot)
{
    (void)n_args, (void)n_results;
    if (!ask(wick_registration_at(slot), WICK_ASK_BATCH, stack)) raise_error();
}
