/* glue.c -- the C around an author's file
 *
 *   #define WICK_T 3                   the element types of this unit
 *   #include <wick/op.h>
 *   static wick_status f_cpu(...);     what the signature implies; a function that disagrees does
 * not compile static wick_status f_entry(...)    one slot per argument, in the order of the
 * prototype wick_variant ...[]                 this unit's entries wick_module the table, in the
 * last unit #line 1 "op.c"                     the author's text, last: its macros and its errors
 * reach nothing above
 *
 * void * converts to any pointer in C, so entries need no casts and no types of their own.
 */
#include "device.h"

#include <string.h>

/* ---- text as C ---- */

/* A string literal; one line of source per line of text. Octal escapes are always three digits, so
 * that a digit after one stays itself; `?` is escaped because two of them may begin a trigraph. */
static void add_literal(wick_text *out, const char *s)
{
    wick_text_add(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '\n') {
            wick_text_add(out, s[1] ? "\\n\"\n        \"" : "\\n");
        } else if (c == '"' || c == '\\' || c == '?') {
            wick_text_printf(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            wick_text_printf(out, "\\%03o", (unsigned)c);
        } else {
            wick_text_addn(out, s, 1);
        }
    }
    wick_text_add(out, "\"");
}

/* For #line: bytes above ASCII stay, since the compiler prints the name as it stands here. */
static void add_file_literal(wick_text *out, const char *s)
{
    wick_text_add(out, "\"");
    for (; *s; s++) {
        if (strchr("\"\\?", *s)) wick_text_add(out, "\\");
        wick_text_addn(out, s, 1);
    }
    wick_text_add(out, "\"");
}

/* Inside a comment, where neither a star nor a backslash may come through. */
static void add_remark(wick_text *out, const char *s)
{
    for (; *s; s++) {
        wick_text_addn(out, *s == '*' || *s == '\\' ? "+" : s, 1);
    }
}

/* ---- choices: one numbering per argument name over the file ---- */

/* Goes through the choice arguments of all operators of a file. */
typedef struct choice_walk {
    const wick_scan *scan;
    int op, input;
} choice_walk;

static const wick_param *next_choice(choice_walk *walk)
{
    for (; walk->op < walk->scan->n_ops; walk->op++, walk->input = 0) {
        const wick_signature *sig = walk->scan->ops[walk->op].signature;
        while (walk->input < sig->n_inputs) {
            const wick_param *param = &sig->inputs[walk->input++];
            if (param->kind == WICK_KIND_CHOICE) return param;
        }
    }
    return NULL;
}

static int index_in(const wick_param *param, const char *choice)
{
    for (int i = 0; i < param->n_choices; i++) {
        if (strcmp(param->choices[i], choice) == 0) return i;
    }
    return -1;
}

/* No argument of that name before this one has the choice. */
static bool is_first(const wick_scan *scan, const wick_param *param, const char *choice)
{
    choice_walk walk = {scan, 0, 0};
    const wick_param *before;
    while ((before = next_choice(&walk)) != param) {
        if (strcmp(before->name, param->name) == 0 && index_in(before, choice) >= 0) return false;
    }
    return true;
}

/* The number of a choice: how many others of arguments of that name appear before it. */
static int number_of(const wick_scan *scan, const char *name, const char *choice)
{
    choice_walk walk = {scan, 0, 0};
    const wick_param *param;
    int number = 0;
    while ((param = next_choice(&walk)) != NULL) {
        if (strcmp(param->name, name) != 0) continue;
        for (int i = 0; i < param->n_choices; i++) {
            if (strcmp(param->choices[i], choice) == 0) return number;
            number += is_first(scan, param, param->choices[i]);
        }
    }
    return -1;
}

static void add_choices(wick_text *out, const wick_scan *scan)
{
    choice_walk walk = {scan, 0, 0};
    const wick_param *param;
    while ((param = next_choice(&walk)) != NULL) {
        for (int i = 0; i < param->n_choices; i++) {
            if (!is_first(scan, param, param->choices[i])) continue;
            wick_text_printf(out, "enum { WICK_%s_%s = %d };\n", param->name, param->choices[i],
                             number_of(scan, param->name, param->choices[i]));
        }
    }
}

/* The operator's own index becomes the file's number. */
static void add_choice_argument(wick_text *out, const wick_scan *scan, const wick_param *param,
                                int slot)
{
    bool same = true;
    for (int i = 0; i < param->n_choices; i++) {
        same = same && number_of(scan, param->name, param->choices[i]) == i;
    }
    if (same) {
        wick_text_printf(out, "(int)slot[%d].i", slot);
        return;
    }
    for (int i = 0; i < param->n_choices - 1; i++) {
        wick_text_printf(out, "slot[%d].i == %d ? WICK_%s_%s : ", slot, i, param->name,
                         param->choices[i]);
    }
    wick_text_printf(out, "WICK_%s_%s", param->name, param->choices[param->n_choices - 1]);
}

/* ---- entries ---- */

/* The C++ that nvcc reads converts no pointers by itself. */
static void add_cast(wick_text *out, const wick_signature *sig, const wick_param *param,
                     bool written)
{
    wick_text_add(out, "(");
    wick_param_print_c_type(out, sig, param, written);
    wick_text_add(out, ")");
}

static void add_input(wick_text *out, const wick_scan *scan, const wick_signature *sig, int input,
                      bool casts, int *slot)
{
    const wick_param *param = &sig->inputs[input];
    static const char members[] = {[WICK_KIND_TENSOR] = 'p',
                                   [WICK_KIND_INT] = 'i',
                                   [WICK_KIND_FLOAT] = 'f',
                                   [WICK_KIND_BOOL] = 'b',
                                   [WICK_KIND_STR] = 's'};
    if (param->kind == WICK_KIND_SHAPE) return;
    wick_text_add(out, ", ");
    if (casts && param->kind == WICK_KIND_TENSOR) add_cast(out, sig, param, false);
    if (param->kind == WICK_KIND_CHOICE) {
        add_choice_argument(out, scan, param, *slot);
    } else {
        wick_text_printf(out, "slot[%d].%c", *slot, members[param->kind]);
    }
    ++*slot;
}

static void add_arguments(wick_text *out, const wick_scan *scan, const wick_signature *sig,
                          bool casts)
{
    int slot = 0;
    for (int i = 0; i < sig->n_inputs; i++) {
        add_input(out, scan, sig, i, casts, &slot);
    }
    for (int i = 0; i < sig->n_outputs + sig->n_scratch; i++) {
        wick_text_add(out, ", ");
        if (casts)
            add_cast(out, sig,
                     i < sig->n_outputs ? &sig->outputs[i] : &sig->scratch[i - sig->n_outputs],
                     true);
        wick_text_printf(out, "slot[%d].p", slot++);
    }
    for (int i = 0; i < sig->n_dims; i++) {
        if (sig->dims[i].from_int < 0) wick_text_printf(out, ", slot[%d].i", slot++);
    }
}

static void add_entry(wick_text *out, const wick_scan *scan, const wick_scan_op *op,
                      const char *device)
{
    wick_text_printf(out,
                     "static wick_status %s_%s_entry(wick_ctx *ctx, const wick_slot *slot)\n{\n"
                     "    (void)slot;\n    return %s_%s(ctx",
                     op->name, device, op->name, device);
    add_arguments(out, scan, op->signature, false);
    wick_text_add(out, ");\n}\n\n");
}

/* The launcher is in another unit, which nvcc compiles. */
static bool is_elsewhere(const wick_scan *scan) { return scan->needs_nvcc; }

static void add_prototypes(wick_text *out, const wick_scan *scan, bool for_cpu, bool for_cuda)
{
    for (int i = 0; i < scan->n_ops; i++) {
        const wick_scan_op *op = &scan->ops[i];
        for (int cuda = 0; cuda < 2; cuda++) {
            if (!(cuda ? op->has_cuda && for_cuda : op->has_cpu && for_cpu)) continue;
            wick_text_add(out, "static WICK_UNUSED ");
            wick_signature_print_prototype(out, op->signature, cuda ? "cuda" : "cpu", false);
            wick_text_add(out, ";\n");
        }
    }
    wick_text_add(out, "\n");
}

/* ---- variants and the table ---- */

static void add_variant(wick_text *out, const wick_unit *unit, const wick_scan_op *op)
{
    wick_text_add(out, "    {{");
    for (int i = 0; i < WICK_MAX_VARIABLES; i++) {
        bool used = i < op->signature->n_variables;
        wick_text_printf(out, "%s%d", i ? ", " : "", used ? (int)unit->types[op->variables[i]] : 0);
    }
    wick_text_printf(out, "}, %d, ", (int)unit->isa);
    if (op->has_cpu) {
        wick_text_printf(out, "%s_cpu_entry, ", op->name);
    } else {
        wick_text_add(out, "NULL, ");
    }
    if (!op->has_cuda || !unit->cuda) {
        wick_text_add(out, "NULL, NULL},\n");
    } else if (is_elsewhere(unit->scan)) {
        wick_text_printf(out, "wick_nvcc_%lld_%s, NULL},\n", (long long)unit->launchers, op->name);
    } else {
        wick_text_printf(out, "%s_cuda_entry, &wick_this_device},\n", op->name);
    }
}

static int count_ops(const wick_unit *unit)
{
    int n = 0;
    for (int i = 0; i < unit->scan->n_ops; i++) {
        n += wick_scan_op_in(unit->scan, &unit->scan->ops[i], unit->types);
    }
    return n;
}

static void add_variants(wick_text *out, const wick_unit *unit, int64_t which)
{
    const wick_scan *scan = unit->scan;
    if (count_ops(unit) == 0) return;
    for (int i = 0; i < scan->n_ops; i++) {
        const wick_scan_op *op = &scan->ops[i];
        if (!wick_scan_op_in(scan, op, unit->types)) continue;
        if (op->has_cpu) add_entry(out, scan, op, "cpu");
        if (!op->has_cuda || !unit->cuda) continue;
        if (is_elsewhere(scan))
            wick_text_printf(out,
                             "wick_status wick_nvcc_%lld_%s(wick_ctx *, const wick_slot *);\n\n",
                             (long long)unit->launchers, op->name);
        else
            add_entry(out, scan, op, "cuda");
    }
    wick_text_printf(out, "const wick_variant wick_variants_%lld[] = {\n", (long long)which);
    for (int i = 0; i < scan->n_ops; i++) {
        if (wick_scan_op_in(scan, &scan->ops[i], unit->types))
            add_variant(out, unit, &scan->ops[i]);
    }
    wick_text_add(out, "};\n\n");
}

/* Position of an operator among those of a unit; -1 when the unit does not have it. */
static int position_in(const wick_unit *unit, const wick_scan *scan, int op)
{
    int n = 0;
    if (unit->scan != scan || !wick_scan_op_in(scan, &scan->ops[op], unit->types)) return -1;
    for (int i = 0; i < op; i++) {
        n += wick_scan_op_in(scan, &scan->ops[i], unit->types);
    }
    return n;
}

/* The array of pointers of one operator; returns how many there are. */
static int64_t add_pointers(wick_text *out, const wick_unit *units, int64_t n,
                            const wick_scan *scan, int op, int64_t number)
{
    int64_t count = 0;
    for (int64_t u = 0; u < n; u++) {
        int position = position_in(&units[u], scan, op);
        if (position < 0) continue;
        if (count++ == 0) {
            wick_text_printf(out, "static const wick_variant *const wick_op_%lld[] = {\n",
                             (long long)number);
        }
        wick_text_printf(out, "    &wick_variants_%lld[%d],\n", (long long)u, position);
    }
    if (count > 0) wick_text_add(out, "};\n");
    return count;
}

static void add_tune(wick_text *out, const wick_scan *scan, const wick_scan_op *op)
{
    wick_text choices = {0};
    if (op->tune) wick_scan_print_tune(&choices, scan, op);
    out->failed = out->failed || choices.failed;
    if (op->tune)
        add_literal(out, wick_text_str(&choices));
    else
        wick_text_add(out, "NULL");
    wick_text_add(out, "},\n");
    wick_text_free(&choices);
}

static void add_op_entry(wick_text *out, const wick_unit *unit, const wick_scan_op *op,
                         int64_t number, int64_t count)
{
    wick_text signature = {0};
    wick_signature_print(&signature, op->signature);
    out->failed = out->failed || signature.failed;
    wick_text_add(out, "    {");
    if (unit->ns) {
        add_literal(out, unit->ns);
    } else {
        wick_text_add(out, "NULL");
    }
    wick_text_printf(out, ", \"%s\",\n        ", op->name);
    add_literal(out, wick_text_str(&signature));
    wick_text_add(out, ",\n        ");
    add_literal(out, unit->scan->doc);
    wick_text_add(out, ",\n        ");
    add_literal(out, unit->scan->file);
    wick_text_printf(out, ", %lld, ", (long long)op->line);
    if (count > 0)
        wick_text_printf(out, "wick_op_%lld, %lld, ", (long long)number, (long long)count);
    if (count == 0) wick_text_add(out, "NULL, 0, ");
    add_tune(out, unit->scan, op);
    wick_text_free(&signature);
}

static void add_table(wick_text *out, const wick_unit *units, int64_t n)
{
    wick_text entries = {0};
    int64_t number = 0;
    for (int64_t u = 0; u < n - 1; u++) {
        if (count_ops(&units[u]) == 0) continue;
        wick_text_printf(out, "extern const wick_variant wick_variants_%lld[];\n", (long long)u);
    }
    for (int64_t u = 0; u < n; u++) {
        const wick_scan *scan = units[u].scan;
        if (u > 0 && units[u - 1].scan == scan) continue;
        for (int i = 0; i < scan->n_ops; i++) {
            int64_t count = add_pointers(out, units, n, scan, i, number);
            add_op_entry(&entries, &units[u], &scan->ops[i], number++, count);
        }
    }
    out->failed = out->failed || entries.failed;
    wick_text_printf(out, "static const wick_op_entry wick_ops[] = {\n%s};\n",
                     wick_text_str(&entries));
    wick_text_printf(
        out,
        "WICK_API const wick_module_table wick_module;\n"
        "const wick_module_table wick_module = {WICK_MODULE_MAGIC, %d, \"%s\", wick_ops, "
        "%lld};\n\n",
        WICK_ABI, WICK_VERSION, (long long)number);
    wick_text_free(&entries);
}

/* ---- the unit ---- */

static void add_head(wick_text *out, const wick_unit *unit)
{
    const wick_scan *scan = unit->scan;
    int t = 0;
    wick_text_printf(out, "/* Generated by Wick %s from ", WICK_VERSION);
    add_remark(out, scan->file);
    for (int i = 0; i < scan->n_variables; i++) {
        wick_text_printf(out, ", %s = %s", scan->variables[i].name,
                         wick_dtype_name((int)unit->types[i]));
        if (strcmp(scan->variables[i].name, "T") == 0) t = (int)unit->types[i];
    }
    wick_text_printf(out,
                     ". Do not edit. */\n#define WICK_T %d\n#include <wick/op.h>\n\n"
                     "#include <wick/glue.h>\n\n",
                     t);
    for (int i = 0; i < scan->n_variables; i++) {
        if (strcmp(scan->variables[i].name, "T") == 0) continue;
        wick_text_printf(out, "typedef %s %s;\n", wick_dtype_c_type((int)unit->types[i]),
                         scan->variables[i].name);
    }
    add_choices(out, scan);
    for (int i = 0; i < scan->n_knobs; i++)
        wick_text_printf(out, "enum { WICK_TUNE_%s = %d };\n", scan->knobs[i], i);
}

static void add_source(wick_text *out, const wick_scan *scan, const char *text)
{
    wick_text_add(out, text ? "#line 1 " : "#include ");
    add_file_literal(out, scan->file);
    wick_text_add(out, "\n");
    if (!text) return;
    wick_text_add(out, text);
    wick_text_add(out, "\n");
}

/* ---- device code ---- */

/* The bytes come from files, by the assembler: as text in C they would take seconds to read. */
static void add_code(wick_text *out, const wick_unit *unit, int64_t which)
{
    for (int i = 0; i < unit->n_code; i++) {
        const wick_unit_code *code = &unit->code[i];
        long long owner = (long long)unit->code_of;
        wick_text_printf(out, "extern const char wick_code_%lld_%d[];\n", owner, i);
        if (unit->code_of != which) continue;
        wick_text_printf(
            out,
            "__asm__(\".pushsection .rodata\\n.balign 64\\n.globl wick_code_%lld_%d\\n\"\n"
            "        \".hidden wick_code_%lld_%d\\nwick_code_%lld_%d:\\n\"\n"
            "        \".incbin \\\"%s\\\"\\n.popsection\\n\");\n",
            owner, i, owner, i, owner, i, code->path);
    }
    if (unit->n_code > 0) wick_text_add(out, "static const wick_device_code wick_codes[] = {\n");
    for (int i = 0; i < unit->n_code; i++)
        wick_text_printf(out, "    {%d, %d, wick_code_%lld_%d, %llu},\n", (int)unit->code[i].arch,
                         unit->code[i].ptx, (long long)unit->code_of, i,
                         (unsigned long long)unit->code[i].bytes);
    if (unit->n_code > 0) wick_text_add(out, "};\n");
    wick_device_mark(out, unit->scan);
    wick_text_printf(
        out, "static WICK_UNUSED wick_device wick_this_device = {%s, %d, 0, 0, 0, 0, 0};\n\n",
        unit->n_code ? "wick_codes" : "NULL", unit->n_code);
}

static bool has_cuda(const wick_scan *scan)
{
    bool any = scan->device_text != NULL;
    for (int i = 0; i < scan->n_ops; i++)
        any = any || scan->ops[i].has_cuda;
    return any;
}

void wick_glue_write(wick_text *out, const wick_unit *units, int64_t n, int64_t which,
                     bool for_reading)
{
    const wick_unit *unit = &units[which];
    bool cuda = has_cuda(unit->scan);
    add_head(out, unit);
    if (cuda)
        wick_text_printf(out,
                         "#if !defined(__host__)\n#define __host__\n#define __device__\n"
                         "#define __forceinline__ inline\n#endif\n%s",
                         unit->scan->host_types);
    if (cuda && !is_elsewhere(unit->scan)) add_code(out, unit, which);
    add_prototypes(out, unit->scan, true, !is_elsewhere(unit->scan));
    add_variants(out, unit, which);
    if (which == n - 1) add_table(out, units, n);
    /* Of a file with kernels only its host half is C. */
    bool by_name = for_reading && !unit->scan->device_text;
    add_source(out, unit->scan, by_name ? NULL : unit->scan->host_text);
}

void wick_glue_write_device(wick_text *out, const wick_unit *unit)
{
    add_head(out, unit);
    /* C's words in helpers that a kernel calls. */
    wick_text_printf(out,
                     "#define restrict __restrict__\n#define _Bool bool\n"
                     "#define _Static_assert static_assert\n#define _Alignas alignas\n%s",
                     unit->scan->device_prelude);
    add_source(out, unit->scan, unit->scan->device_text);
}

void wick_glue_write_launchers(wick_text *out, const wick_unit *unit, int64_t which)
{
    const wick_scan *scan = unit->scan;
    add_head(out, unit);
    add_prototypes(out, scan, false, true);
    for (int i = 0; i < scan->n_ops; i++) {
        const wick_scan_op *op = &scan->ops[i];
        if (!op->has_cuda || !wick_scan_op_in(scan, op, unit->types)) continue;
        wick_text_printf(
            out,
            "extern \"C\" wick_status wick_nvcc_%lld_%s(wick_ctx *ctx, const wick_slot "
            "*slot)\n{\n    int was = 0;\n    (void)slot;\n    cudaGetDevice(&was);\n"
            "    if (was != ctx->device) cudaSetDevice(ctx->device);\n"
            "    wick_status status = %s_cuda(ctx",
            (long long)which, op->name, op->name);
        add_arguments(out, scan, op->signature, true);
        wick_text_add(out, ");\n    if (was != ctx->device) cudaSetDevice(was);\n"
                           "    return status;\n}\n\n");
    }
    add_source(out, scan, scan->device_text);
}
