/* combine.c -- what a scanned file is built as: which element types, in which namespace
 *
 * A combination is one type per variable of the file, numbered like a number whose digits are the
 * variables.
 */
#include "builder.h"

#include <ctype.h>
#include <string.h>

static bool is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    while (isalnum((unsigned char)*s) || *s == '_')
        s++;
    return *s == '\0';
}

wick_status wick_scan_namespace(wick_ctx *ctx, const wick_scan *scan,
                                const wick_build_options *options, const char **out)
{
    static const char *const taken[] = {"aten", "prim", "wick_raw", "wick"};
    const char *given = options ? options->ns : NULL;
    const char *ns = scan->ns ? scan->ns : given;
    long long line = scan->ns ? (long long)scan->ns_line : 1;
    bool ours = given && strcmp(given, "wick") == 0;
    *out = ns;
    if (!ns) return WICK_OK;
    if (!is_identifier(ns)) {
        return wick_fail(ctx, WICK_EINVAL, "%s:%lld: the namespace \"%s\" is not a C identifier",
                         scan->file, line, ns);
    }
    for (int i = 0; i < WICK_COUNT(taken); i++) {
        if (strcmp(ns, taken[i]) != 0 || (ours && strcmp(ns, "wick") == 0)) continue;
        return wick_fail(
            ctx, WICK_EINVAL,
            "%s:%lld: the namespace %s belongs to %s; choose a name of your own, or none "
            "(the operators are then in local)",
            scan->file, line, ns, i < 2 ? "torch" : "Wick");
    }
    return WICK_OK;
}

int64_t wick_scan_combinations(const wick_scan *scan)
{
    int64_t n = 1;
    for (int i = 0; i < scan->n_variables; i++) {
        n *= scan->variables[i].n_types;
    }
    return n;
}

void wick_scan_combination(const wick_scan *scan, int64_t index, wick_dtype *types)
{
    for (int i = 0; i < WICK_MAX_VARIABLES; i++) {
        types[i] = WICK_NONE;
    }
    for (int i = scan->n_variables - 1; i >= 0; i--) {
        const wick_variable *v = &scan->variables[i];
        types[i] = v->types[index % v->n_types];
        index /= v->n_types;
    }
}

bool wick_scan_op_in(const wick_scan *scan, const wick_scan_op *op, const wick_dtype *types)
{
    for (int i = 0; i < scan->n_variables; i++) {
        bool used = false;
        for (int k = 0; k < op->signature->n_variables; k++) {
            used = used || op->variables[k] == i;
        }
        if (!used && types[i] != scan->variables[i].types[0]) return false;
    }
    return true;
}

int64_t wick_scan_likely(const wick_scan *scan)
{
    wick_dtype types[WICK_MAX_VARIABLES];
    for (int64_t i = 0; i < wick_scan_combinations(scan); i++) {
        wick_scan_combination(scan, i, types);
        for (int v = 0; v < scan->n_variables; v++)
            if (!strcmp(scan->variables[v].name, "T") && types[v] == WICK_F32) return i;
    }
    return 0;
}
