/* main.c -- a C program that loads an operator and calls it: no Python, no torch
 *
 *   wick build examples/scale_bias.c -o scale_bias.so
 *   cc -std=c11 examples/c_host/main.c -I INCLUDE -L LIB -lwick -Wl,-rpath,LIB -o host
 *   ./host ./scale_bias.so
 *
 * docs/c-api.md says where INCLUDE and LIB are. The module is the same file that wick.load takes in
 * Python.
 */
#include <wick/wick.h>

#include <stdio.h>

static void print_row(const char *what, const float *v, int n)
{
    printf("%s", what);
    for (int i = 0; i < n; i++) {
        printf(" %g", (double)v[i]);
    }
    printf("\n");
}

static void print_operators(const wick_module *module)
{
    for (int64_t i = 0; i < wick_module_count(module); i++) {
        const wick_op *op = wick_module_op(module, i);
        printf("%s.%s: %s\n", wick_op_namespace(op), wick_op_name(op), wick_op_signature(op));
    }
}

/* y = x * 2 + bias, twice: into memory that Wick allocates, then into our own. */
static wick_status call(wick_ctx *ctx, wick_op *op)
{
    float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, bias[3] = {10, 20, 30}, mine[2][3];
    int64_t rows[2] = {2, 3}, row[1] = {3};
    wick_value args[3] = {wick_tensor_of(x, WICK_F32, 2, rows),
                          wick_tensor_of(bias, WICK_F32, 1, row), wick_float(2.0)};
    wick_value fresh = {0}, given = wick_tensor_of(mine, WICK_F32, 2, rows);

    wick_status status = wick_op_call(ctx, op, args, 3, &fresh, 1);
    if (status) return status;
    print_row("allocated by Wick:", fresh.as.tensor.data, 6);
    wick_value_free(&fresh);

    status = wick_op_call(ctx, op, args, 3, &given, 1);
    if (status) return status;
    print_row("in our own memory:", &mine[0][0], 6);
    return WICK_OK;
}

/* A bias of the wrong length: the call fails, says why, and touches nothing. */
static void call_wrongly(wick_ctx *ctx, wick_op *op)
{
    float x[2][3] = {{0}}, bias[4] = {0};
    int64_t rows[2] = {2, 3}, row[1] = {4};
    wick_value args[3] = {wick_tensor_of(x, WICK_F32, 2, rows),
                          wick_tensor_of(bias, WICK_F32, 1, row), wick_float(2.0)};
    wick_value y = {0};

    wick_status status = wick_op_call(ctx, op, args, 3, &y, 1);
    printf("a wrong shape: status %d, %s\n", (int)status, wick_ctx_message(ctx));
}

int main(int argc, char **argv)
{
    wick_ctx *ctx = wick_ctx_new();
    wick_module *module = NULL;
    wick_op *op = NULL;
    int code = 1;

    if (!ctx) return 1;
    if (argc != 2) {
        fprintf(stderr, "usage: %s MODULE.so\n", argv[0]);
        goto done;
    }
    if (wick_module_load(ctx, argv[1], &module)) {
        fprintf(stderr, "%s\n", wick_ctx_message(ctx));
        goto done;
    }
    print_operators(module);
    op = wick_op_find("local", "scale_bias");
    if (!op) {
        fprintf(stderr, "%s has no scale_bias\n", argv[1]);
        goto done;
    }
    if (call(ctx, op)) {
        fprintf(stderr, "%s\n", wick_ctx_message(ctx));
        goto done;
    }
    call_wrongly(ctx, op);
    code = 0;
done:
    wick_ctx_free(ctx);
    return code;
}
