/* trial.c -- a call whose tensors all lie in zones
 *
 * The call itself is src/module's, as in every other host; what differs is where memory comes from.
 * Inputs are sealed, so that writing to one ends the process even if it were put back later.
 * Results and scratch are filled with a byte of the trial's choice: whoever reads them before
 * writing, or does not write them, gets other results with another byte.
 */
#include "trial.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { SCRATCH_ALIGNMENT = 64 }; /* what scratch always has (src/module/call.h) */

/* Bytes by which a tensor begins later than a page. Not all begin alike: what is aligned in one
 * tensor need not be in another. */
static size_t shift_of(const wick_trial *t, const wick_param *param, size_t each)
{
    const wick_signature *sig = t->sig;
    for (int i = 0; i < sig->n_inputs + sig->n_outputs && i < 32; i++) {
        const wick_param *p =
            i < sig->n_inputs ? &sig->inputs[i] : &sig->outputs[i - sig->n_inputs];
        if (p == param) return (t->options.shift >> i & 1) * each;
    }
    return 0;
}

/* ---- the host ---- */

static wick_status trial_empty(wick_ctx *ctx, wick_dtype dtype, int device_type, int device_index,
                               int dim, const int64_t *size, wick_tensor *out)
{
    wick_trial *t = (wick_trial *)ctx->host;
    if (t->n_asked >= t->n_places)
        return wick_fail(ctx, WICK_ENOMEM, "the call asks for more tensors than expected");
    wick_trial_place *place = &t->place[t->n_asked++];
    size_t each = wick_dtype_size((int)dtype);
    uint64_t bytes = wick_shape_bytes(dim, size, dtype);
    if (bytes > SIZE_MAX / 4)
        return wick_fail(ctx, WICK_ENOMEM, "%s is too large", place->param->name);
    wick_zone_wish wish = {.label = place->param->name,
                           .bytes = (size_t)bytes,
                           .alignment = place->scratch ? SCRATCH_ALIGNMENT : each,
                           .at_end = t->options.at_end,
                           .shift = shift_of(t, place->param, each),
                           .room = t->options.room,
                           .writable = true,
                           .folded = true};
    if (place->zone.bytes != wish.bytes) wick_zone_close(&place->zone);
    if (!place->zone.reserved) WICK_TRY(wick_zone_open(ctx, &wish, &place->zone));
    place->zone.owner = t;
    /* Another byte for scratch: what is copied from it is not taken for what was never written. */
    const uint8_t fill = (uint8_t)(t->options.fill ^ (place->scratch ? 0x80 : 0));
    wick_zone_fill(&place->zone, fill);
    if (dim) memcpy(place->size, size, (size_t)dim * sizeof *size);
    wick_shape_contiguous_strides(dim, size, place->stride);
    *out = (wick_tensor){.data = place->zone.data,
                         .dim = dim,
                         .dtype = (int32_t)dtype,
                         .device_type = device_type,
                         .device_index = device_index,
                         .size = place->size,
                         .stride = place->stride,
                         .handle = &place->zone};
    return WICK_OK;
}

static wick_status trial_copy(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from)
{
    (void)ctx;
    wick_shape_copy(to->dim, to->size, to->data, to->stride, from->data, from->stride,
                    wick_dtype_size(to->dtype));
    return WICK_OK;
}

/* A zone stays open for the next call, which asks for the same. */
static void trial_release(wick_tensor *tensor)
{
    const wick_zone *zone = tensor->handle;
    wick_trial *t = zone->owner;
    wick_zone_inspect(zone, &t->damage);
}

static const wick_host trial_host = {
    .empty = trial_empty, .copy = trial_copy, .release = trial_release, .scratch_too = true};

static const wick_services trial_services = {.fail = wick_plain_fail,
                                             .parallel = wick_schedule_parallel};

/* ---- inputs ---- */

/* Bytes from the first element to the last, gaps included. */
static size_t span_of(const wick_tensor *t)
{
    int64_t last = 0;
    for (int d = 0; d < t->dim; d++) {
        if (t->size[d] == 0) return 0;
        last += (t->size[d] - 1) * t->stride[d];
    }
    return (size_t)(last + 1) * wick_dtype_size(t->dtype);
}

/* Arguments that share their memory share a zone as well. The one that has it comes first. */
static bool share_zone(wick_trial *t, const wick_trial_argument *args, int i)
{
    wick_tensor *tensor = &t->args[i].as.tensor;
    for (int k = 0; k < i; k++) {
        if (args[k].value.kind != WICK_VALUE_TENSOR || !t->input[k].reserved) continue;
        if (args[k].value.as.tensor.data != tensor->data || t->input[k].bytes != span_of(tensor))
            continue;
        tensor->data = t->input[k].data;
        t->zone_of[i] = k;
        return true;
    }
    return false;
}

/* Whether this argument, or one that shares its memory, is written. */
static bool is_written(const wick_trial *t, const wick_trial_argument *args, int i)
{
    const void *data = args[i].value.as.tensor.data;
    for (int k = 0; k < t->sig->n_inputs; k++)
        if (t->sig->inputs[k].in_place && args[k].value.kind == WICK_VALUE_TENSOR &&
            args[k].value.as.tensor.data == data)
            return true;
    return false;
}

static wick_status place_input(wick_ctx *ctx, wick_trial *t, const wick_trial_argument *args, int i)
{
    const wick_param *param = &t->sig->inputs[i];
    wick_tensor *tensor = &t->args[i].as.tensor;
    size_t each = wick_dtype_size(tensor->dtype), bytes = span_of(tensor);
    if (bytes && share_zone(t, args, i)) return WICK_OK;
    wick_zone_wish wish = {.label = param->name,
                           .bytes = bytes,
                           .alignment = each ? each : 1,
                           .at_end = t->options.at_end,
                           .shift = shift_of(t, param, each),
                           .room = t->options.room,
                           .writable = true};
    WICK_TRY(wick_zone_open(ctx, &wish, &t->input[i]));
    t->zone_of[i] = i;
    if (bytes) memcpy(t->input[i].data, tensor->data, bytes);
    tensor->data = t->input[i].data;
    if (!is_written(t, args, i)) {
        wick_zone_seal(&t->input[i]);
        return WICK_OK;
    }
    t->before[i] = wick_malloc(bytes);
    if (!t->before[i]) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (bytes) memcpy(t->before[i], tensor->data, bytes);
    return WICK_OK;
}

/* Of a str, the NUL is the last byte that may be read. */
static wick_status place_string(wick_ctx *ctx, wick_trial *t, int i)
{
    const char *s = t->args[i].as.s;
    wick_zone_wish wish = {.label = t->sig->inputs[i].name,
                           .bytes = strlen(s) + 1,
                           .alignment = 1,
                           .at_end = t->options.at_end,
                           .room = t->options.room,
                           .writable = true};
    WICK_TRY(wick_zone_open(ctx, &wish, &t->input[i]));
    memcpy(t->input[i].data, s, wish.bytes);
    t->args[i].as.s = t->input[i].data;
    wick_zone_seal(&t->input[i]);
    return WICK_OK;
}

/* Sizes and strides are kept: the caller's may be gone when the operator is called. */
static void keep_shape(wick_trial *t, int i)
{
    wick_tensor *x = &t->args[i].as.tensor;
    memcpy(t->input_size[i], x->size, (size_t)x->dim * sizeof *x->size);
    if (x->stride) memcpy(t->input_stride[i], x->stride, (size_t)x->dim * sizeof *x->stride);
    x->size = t->input_size[i];
    x->stride = t->input_stride[i];
}

/* What a call will ask its host for, in this order: copies of inputs that are not contiguous,
 * results, scratch (src/module/call.c). */
static void expect_places(wick_trial *t)
{
    for (int i = 0; i < t->sig->n_inputs; i++) {
        const wick_param *p = &t->sig->inputs[i];
        const wick_tensor *x = &t->args[i].as.tensor;
        if (p->kind == WICK_KIND_TENSOR && !p->strided && t->args[i].kind == WICK_VALUE_TENSOR &&
            !wick_shape_is_contiguous(x->dim, x->size, x->stride))
            t->place[t->n_places++].param = p;
    }
    for (int i = 0; i < t->sig->n_outputs; i++)
        if (t->sig->outputs[i].kind == WICK_KIND_TENSOR && !t->unwanted[i])
            t->place[t->n_places++].param = &t->sig->outputs[i];
    for (int i = 0; i < t->sig->n_scratch; i++) {
        t->place[t->n_places].param = &t->sig->scratch[i];
        t->place[t->n_places++].scratch = true;
    }
}

wick_status wick_trial_init(wick_ctx *ctx, wick_trial *t, wick_op *op,
                            const wick_trial_argument *args, const bool *unwanted,
                            const wick_trial_options *options)
{
    memset(t, 0, sizeof *t);
    t->op = op;
    t->sig = wick_op_current(op)->sig;
    t->options = *options;
    t->differs = -1;
    t->schedule = (wick_schedule){
        .threads = options->threads, .order = options->order, .seed = options->seed};
    wick_ctx_init(&t->ctx, &trial_services);
    t->ctx.host = t;
    for (int i = 0; i < t->sig->n_outputs; i++)
        t->unwanted[i] = unwanted[i];
    for (int i = 0; i < t->sig->n_inputs; i++) {
        t->args[i] = args[i].value;
        t->zone_of[i] = -1;
        if (args[i].value.kind == WICK_VALUE_TENSOR || args[i].value.kind == WICK_VALUE_SHAPE)
            keep_shape(t, i);
        if (args[i].value.kind == WICK_VALUE_TENSOR && !args[i].in_zone)
            WICK_TRY(place_input(ctx, t, args, i));
        if (t->sig->inputs[i].kind == WICK_KIND_STR) WICK_TRY(place_string(ctx, t, i));
    }
    expect_places(t);
    return WICK_OK;
}

/* ---- calls ---- */

static void drop_results(wick_trial *t)
{
    for (int i = 0; i < t->sig->n_outputs; i++) {
        if (t->results[i].kind == WICK_VALUE_TENSOR) trial_release(&t->results[i].as.tensor);
        t->results[i] = (wick_value){.unwanted = t->unwanted[i]};
        memset(&t->results[i].as, t->options.fill, sizeof t->results[i].as); /* of a plain number */
    }
    t->n_asked = 0;
}

static void restore_inputs(wick_trial *t)
{
    for (int i = 0; i < t->sig->n_inputs; i++)
        if (t->before[i] && t->input[i].bytes)
            memcpy(t->input[i].data, t->before[i], t->input[i].bytes);
}

static wick_status call_once(wick_trial *t)
{
    drop_results(t);
    restore_inputs(t);
    wick_ctx_clear(&t->ctx);
    return wick_op_invoke(&t->ctx, t->op, wick_op_current(t->op), &trial_host, t->args, t->results);
}

void wick_trial_result(const wick_trial *t, int output, const void **data, size_t *bytes)
{
    const wick_value *r = &t->results[output];
    *data = NULL;
    *bytes = 0;
    if (r->kind == WICK_VALUE_TENSOR) {
        const wick_zone *zone = r->as.tensor.handle;
        *bytes = wick_zone_tail(zone->bytes);
        *data = zone->data + zone->bytes - *bytes;
    } else if (r->kind != WICK_VALUE_NONE) {
        *data = &r->as;
        *bytes = r->kind == WICK_VALUE_BOOL ? sizeof r->as.b : sizeof r->as.i;
    }
}

const wick_zone *wick_trial_written(const wick_trial *t, int input)
{
    if (!t->sig->inputs[input].in_place || t->zone_of[input] < 0) return NULL;
    return &t->input[t->zone_of[input]];
}

/* The results of a call, and what it wrote in place, are numbered: results first. */
static void outcome_of(const wick_trial *t, int k, const void **data, size_t *bytes)
{
    int input = k - t->sig->n_outputs;
    if (input < 0) {
        wick_trial_result(t, k, data, bytes);
    } else {
        const wick_zone *zone = wick_trial_written(t, input);
        *data = zone ? zone->data : NULL;
        *bytes = zone ? zone->bytes : 0;
    }
}

static int n_outcomes(const wick_trial *t) { return t->sig->n_outputs + t->sig->n_inputs; }

static bool keep_first(wick_trial *t)
{
    for (int k = 0; k < n_outcomes(t); k++) {
        const void *data;
        size_t bytes;
        outcome_of(t, k, &data, &bytes);
        if (bytes == 0) continue;
        t->first[k] = wick_malloc(bytes);
        if (!t->first[k]) return false;
        memcpy(t->first[k], data, bytes);
    }
    return true;
}

bool wick_trial_agrees(const wick_trial *t)
{
    for (int k = 0; k < n_outcomes(t); k++) {
        const void *data;
        size_t bytes;
        outcome_of(t, k, &data, &bytes);
        if (bytes > 0 && (!t->first[k] || memcmp(t->first[k], data, bytes) != 0)) return false;
    }
    return true;
}

wick_status wick_trial_again(wick_trial *t) { return call_once(t); }

wick_status wick_trial_first(wick_trial *t)
{
    wick_status status = call_once(t);
    if (!keep_first(t)) return wick_fail(&t->ctx, WICK_ENOMEM, "out of memory");
    return status;
}

/* What is held now and was not when `t->leaked` was taken. */
static void count_leaks(wick_trial *t)
{
    wick_snapshot now, *then = &t->leaked;
    wick_snapshot_take(&now);
    *then = (wick_snapshot){.heap_bytes = now.heap_bytes - then->heap_bytes,
                            .mapped_bytes = now.mapped_bytes - then->mapped_bytes,
                            .files = now.files - then->files,
                            .threads = now.threads - then->threads};
}

/* Pieces of loops have met often enough, or it takes too long. */
static bool has_met(const wick_trial *t, const struct timespec *start)
{
    const double patience = 0.4; /* seconds */
    struct timespec now;
    if (t->options.meetings == 0) return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double elapsed =
        (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
    return t->schedule.meetings >= t->options.meetings || elapsed > patience;
}

/* Calls it as often as asked. */
static wick_status call_all(wick_trial *t)
{
    const int64_t repeats = t->options.repeats;
    wick_status first = repeats > 1 ? wick_trial_first(t) : call_once(t), status = first;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t r = 1; r < repeats && !has_met(t, &start); r++) {
        if (r == repeats / 2) {
            drop_results(t);
            wick_ctx_clear(&t->ctx);
            wick_snapshot_take(&t->leaked);
        }
        status = call_once(t);
        if (status == first && (status != WICK_OK || wick_trial_agrees(t))) continue;
        t->differs = r;
        t->leaked = (wick_snapshot){0};
        return status;
    }
    if (repeats > 1) {
        drop_results(t);
        wick_ctx_clear(&t->ctx);
        count_leaks(t);
        status = call_once(t); /* for its results, and its words */
    }
    return status;
}

/* As much stack as a thread of a program has that is careful with it: an array there that grows
 * with the input fails long before the main thread's own limit. */
static void limit_stack(struct rlimit *kept)
{
    const rlim_t enough = 3 << 19;
    if (getrlimit(RLIMIT_STACK, kept) != 0) kept->rlim_cur = 0;
    if (kept->rlim_cur <= enough && kept->rlim_cur != RLIM_INFINITY) return;
    setrlimit(RLIMIT_STACK, &(struct rlimit){.rlim_cur = enough, .rlim_max = kept->rlim_max});
}

wick_status wick_trial_run(wick_trial *t)
{
    wick_state state;
    struct rlimit stack;
    wick_state_take(&state);
    limit_stack(&stack);
    wick_status status = call_all(t);
    if (stack.rlim_cur > 0) setrlimit(RLIMIT_STACK, &stack);
    wick_state_compare(&state, &t->left);
    wick_state_restore(&state);
    return status;
}

void wick_trial_inspect(wick_trial *t)
{
    for (int i = 0; i < t->sig->n_inputs; i++)
        if (t->input[i].reserved) wick_zone_inspect(&t->input[i], &t->damage);
    for (int i = 0; i < t->n_places; i++)
        if (t->place[i].zone.reserved) wick_zone_inspect(&t->place[i].zone, &t->damage);
}

void wick_trial_free(wick_trial *t)
{
    if (!t->sig) return;
    for (int i = 0; i < t->n_places; i++)
        wick_zone_close(&t->place[i].zone);
    for (int i = 0; i < t->sig->n_inputs; i++) {
        wick_zone_close(&t->input[i]);
        wick_free(t->before[i]);
    }
    for (int k = 0; k < n_outcomes(t); k++)
        wick_free(t->first[k]);
    wick_text_free(&t->damage);
    wick_text_free(&t->left);
    wick_ctx_deinit(&t->ctx);
}
