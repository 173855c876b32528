/* differences -- d[s] = x[s+1] - x[s] along the last dimension
 *
 * The output is one shorter than the input, which the signature says with a sum: S is solved from
 * x.
 */
#include <wick/op.h>

WICK_OP(differences, "x: T[*N, S+1] -> d: T[*N, S] where T: f32 f64 i64");

WICK_IMPL wick_status differences_cpu(wick_ctx *ctx, const T *x, T *d, int64_t N, int64_t S)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        const T *row = x + n * (S + 1);
        for (int64_t s = 0; s < S; s++) {
            d[n * S + s] = row[s + 1] - row[s];
        }
    }
    return WICK_OK;
}
