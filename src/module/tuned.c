/* tuned.c -- launch choices that were measured on this device
 *
 *   <cache>/tune/<device>/<namespace>.<operator>.txt
 *     threads: 128 256 512, rows: 1 2 4        what there was to choose from
 *     f32 16,12 256,2                          types, class of each dim, the values chosen
 *
 * A dim's class is the whole part of its binary logarithm. `wick tune` writes such files; here they
 * are only read, once per operator and device, at the operator's first call on that device. A file
 * that lists other choices than the operator does is of an earlier version and counts for nothing,
 * as does a line with a value that the operator does not list. Without a line for its types and
 * sizes a call has no choices made for it, and the operator's own rule holds.
 */
#include "tuned.h"

#include "cuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One line of the file. */
typedef struct tuned_line {
    uint8_t types[WICK_MAX_TYPEVARS];
    int8_t classes[WICK_MAX_NAMED];
    int64_t values[WICK_MAX_KNOBS];
} tuned_line;

/* What was measured on one device; made once and kept, since a call may be reading it. */
struct wick_tuned_device {
    struct wick_tuned_device *next;
    int32_t device;
    int n;
    tuned_line lines[];
};

/* ---- keys ---- */

int wick_tuned_class(int64_t size)
{
    int class = 0;
    while (size > 1) {
        size >>= 1;
        class ++;
    }
    return class;
}

void wick_tuned_print_key(wick_text *out, const wick_signature *sig, const wick_dtype *types,
                          const int64_t *dims)
{
    for (int i = 0; i < sig->n_variables; i++)
        wick_text_printf(out, "%s%s", i ? "+" : "", wick_dtype_name((int)types[i]));
    wick_text_add(out, sig->n_variables ? " " : "- ");
    for (int i = 0; i < sig->n_dims; i++)
        wick_text_printf(out, "%s%d", i ? "," : "", wick_tuned_class(dims[i]));
    if (sig->n_dims == 0) wick_text_add(out, "-");
}

/* A name as part of a path. */
static void add_name(wick_text *out, const char *name)
{
    for (; *name; name++) {
        bool plain = isalnum((unsigned char)*name) || *name == '-' || *name == '_';
        wick_text_addn(out, plain ? name : "_", 1);
    }
}

void wick_tuned_path(wick_text *out, const char *device, const char *ns, const char *name)
{
    wick_cache_root(out, NULL);
    if (out->size == 0) return;
    wick_text_add(out, "/tune/");
    add_name(out, device);
    wick_text_add(out, "/");
    add_name(out, ns);
    wick_text_add(out, ".");
    add_name(out, name);
    wick_text_add(out, ".txt");
}

/* ---- reading ---- */

/* One field of a line, up to a blank; advances. */
static size_t take_field(const char **at, const char *end, const char **field)
{
    while (*at < end && **at == ' ')
        ++*at;
    *field = *at;
    while (*at < end && **at != ' ')
        ++*at;
    return (size_t)(*at - *field);
}

static bool read_types(const char *s, size_t size, const wick_signature *sig, tuned_line *out)
{
    if (sig->n_variables == 0) return size == 1 && *s == '-';
    for (int i = 0; i < sig->n_variables; i++) {
        const char *end = memchr(s, '+', size);
        size_t n = end ? (size_t)(end - s) : size;
        bool reserved;
        wick_dtype type = wick_dtype_parse(s, n, &reserved);
        if (type == WICK_NONE || !end != (i == sig->n_variables - 1)) return false;
        out->types[i] = (uint8_t)type;
        s += n + (end != NULL);
        size -= n + (end != NULL);
    }
    return true;
}

/* `n` numbers from 0 on with commas between them. */
static bool read_numbers(const char *s, size_t size, int n, int64_t *out)
{
    const char *end = s + size;
    if (n == 0) return size == 1 && *s == '-';
    for (int i = 0; i < n; i++) {
        out[i] = 0;
        if (s == end || !isdigit((unsigned char)*s)) return false;
        for (; s < end && isdigit((unsigned char)*s) && out[i] <= INT32_MAX; s++)
            out[i] = out[i] * 10 + (*s - '0');
        if (i + 1 < n ? s == end || *s++ != ',' : s != end) return false;
    }
    return true;
}

/* Every knob of the operator has one of its values; those of other operators have 0. */
static bool are_choices(const wick_tune *tune, const int64_t *values)
{
    for (int i = 0; i < tune->n; i++) {
        bool listed = tune->knobs[i].n == 0 && values[i] == 0;
        for (int k = 0; k < tune->knobs[i].n; k++)
            listed = listed || tune->knobs[i].values[k] == values[i];
        if (!listed) return false;
    }
    return true;
}

static bool read_line(const char *at, const char *end, const wick_op_def *def, tuned_line *out)
{
    const char *field;
    int64_t classes[WICK_MAX_NAMED];
    memset(out, 0, sizeof *out);
    size_t n = take_field(&at, end, &field);
    if (n == 0 || !read_types(field, n, def->sig, out)) return false;
    n = take_field(&at, end, &field);
    if (!read_numbers(field, n, def->sig->n_dims, classes)) return false;
    n = take_field(&at, end, &field);
    if (!read_numbers(field, n, def->tune->n, out->values)) return false;
    for (int i = 0; i < def->sig->n_dims; i++)
        out->classes[i] = (int8_t)(classes[i] < 64 ? classes[i] : 64);
    return take_field(&at, end, &field) == 0 && are_choices(def->tune, out->values);
}

/* The first line is the operator's own list. */
static bool is_current(const char *text, const wick_tune *tune)
{
    wick_text own = {0};
    wick_tune_print(&own, tune);
    size_t n = strcspn(text, "\n");
    bool same = !own.failed && n == own.size && memcmp(text, wick_text_str(&own), n) == 0;
    wick_text_free(&own);
    return same;
}

static int count_lines(const char *text)
{
    int n = 1;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static wick_tuned_device *read_text(const char *text, const wick_op_def *def, int32_t device)
{
    size_t room = (size_t)count_lines(text);
    wick_tuned_device *out = wick_calloc(1, sizeof *out + room * sizeof out->lines[0]);
    if (!out) return NULL;
    out->device = device;
    if (!is_current(text, def->tune)) return out;
    for (const char *at = strchr(text, '\n'); at && at[1];) {
        const char *end = at + 1 + strcspn(at + 1, "\n");
        if (read_line(at + 1, end, def, &out->lines[out->n])) out->n++;
        at = *end ? end : NULL;
    }
    return out;
}

static bool is_off(void)
{
    const char *word = getenv("WICK_TUNED");
    return word && (!strcmp(word, "0") || !strcmp(word, "off"));
}

/* NULL when out of memory; a file that is not there is one without lines. */
static wick_tuned_device *read_device(const char *ns, const wick_op_def *def, int32_t device)
{
    const wick_cuda_facts *facts = NULL;
    wick_text path = {0};
    char *text = NULL;
    wick_ctx own;
    wick_ctx_init(&own, NULL); /* that nothing was measured is no failure */
    if (!is_off() && wick_cuda_device_facts(&own, device, &facts) == WICK_OK)
        wick_tuned_path(&path, facts->name, ns, def->sig->name);
    if (path.size && !path.failed && wick_file_exists(path.data))
        wick_file_read(&own, path.data, &text, NULL);
    wick_tuned_device *out = read_text(text ? text : "", def, device);
    wick_free(text);
    wick_text_free(&path);
    wick_ctx_deinit(&own);
    return out;
}

static const wick_tuned_device *of_device(const wick_op *op, wick_op_def *def, int32_t device)
{
    wick_tuned_device *first = atomic_load_explicit(&def->tuned, memory_order_acquire);
    for (const wick_tuned_device *d = first; d; d = d->next)
        if (__atomic_load_n(&d->device, __ATOMIC_RELAXED) == device) return d;
    wick_tuned_device *made = read_device(op->ns, def, device);
    if (!made) return NULL;
    do /* two threads may have read it: the same, twice */
        made->next = first;
    while (!atomic_compare_exchange_weak(&def->tuned, &first, made));
    return made;
}

/* ---- one call ---- */

static bool is_for(const tuned_line *line, const wick_signature *sig, const wick_dtype *types,
                   const int64_t *dims)
{
    for (int i = 0; i < sig->n_variables; i++)
        if (line->types[i] != (uint8_t)types[i]) return false;
    for (int i = 0; i < sig->n_dims; i++)
        if (line->classes[i] != wick_tuned_class(dims[i])) return false;
    return true;
}

const int64_t *wick_tuned_find(const wick_op *op, wick_op_def *def, int32_t device,
                               const wick_dtype *types, const int64_t *dims)
{
    if (def->stands_for) def = def->stands_for;
    const int64_t *forced = atomic_load_explicit(&def->forced, memory_order_acquire);
    if (forced) return forced;
    const wick_tuned_device *measured = of_device(op, def, device);
    for (int i = 0; measured && i < measured->n; i++)
        if (is_for(&measured->lines[i], def->sig, types, dims)) return measured->lines[i].values;
    return NULL;
}

/* ---- measuring ---- */

wick_status wick_tuned_force(wick_ctx *ctx, wick_op_def *def, const int64_t *values)
{
    if (def->stands_for) def = def->stands_for;
    if (!def->tune) return wick_fail(ctx, WICK_EINVAL, "the operator has no choices (WICK_TUNE)");
    if (!values) {
        atomic_store_explicit(&def->forced, NULL, memory_order_release);
        return WICK_OK;
    }
    if (!are_choices(def->tune, values))
        return wick_fail(ctx, WICK_EINVAL, "these are not choices of the operator");
    /* The other of two places: a call may be reading this one. */
    int64_t *place = def->forced_values[atomic_load(&def->forced) == def->forced_values[0]];
    memcpy(place, values, sizeof def->forced_values[0]);
    atomic_store_explicit(&def->forced, place, memory_order_release);
    return WICK_OK;
}

void wick_tuned_forget(wick_op_def *def)
{
    if (def->stands_for) def = def->stands_for;
    /* A call may be reading what is kept: it stays, as that of no device. */
    for (wick_tuned_device *d = atomic_load(&def->tuned); d; d = d->next)
        __atomic_store_n(&d->device, -1, __ATOMIC_RELAXED);
}

void wick_tuned_free(wick_op_def *def)
{
    wick_tuned_device *device = atomic_load(&def->tuned);
    while (device) {
        wick_tuned_device *next = device->next;
        wick_free(device);
        device = next;
    }
}
