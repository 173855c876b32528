/* scaled -- y = scale * x, in tiles; what calls know of each other
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  stream     all calls leave their scale in one place on the device
 *    2  repeat     how many tiles are side by side is kept for as many elements
 *    3  threads    how many they are lies in one place for all callers, from one launch to the next
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(scaled, "x: T[R, C], scale: float = 1.0 -> y: T[R, C] where T: f32");

enum { SIDE = 32 };

WICK_IMPL wick_status scaled_cpu(wick_ctx *ctx, const T *x, double scale, T *y, int64_t R,
                                 int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < R * C; i++)
        y[i] = wick_T(wick_A(x[i]) * (A)scale);
    return WICK_OK;
}

#if FAULT == 1
static __device__ volatile double the_scale;

static __global__ void scaled_set(double scale) { the_scale = scale; }
#endif

static __global__ void scaled_tiles(const T *x, double scale, T *y, int64_t R, int64_t C,
                                    int64_t across)
{
    const int64_t r = blockIdx.x / across * SIDE + threadIdx.y;
    const int64_t c = blockIdx.x % across * SIDE + threadIdx.x;
#if FAULT == 1
    scale = the_scale;
#endif
    if (r < R && c < C) y[r * C + c] = wick_T(wick_A(x[r * C + c]) * (A)scale);
}

WICK_IMPL wick_status scaled_cuda(wick_ctx *ctx, const T *x, double scale, T *y, int64_t R,
                                  int64_t C)
{
    int64_t across = wick_ceil_div(C, SIDE);
    if (R * C == 0) return WICK_OK;
#if FAULT == 1
    const wick_status status = WICK_LAUNCH(ctx, scaled_set, wick_1d(1), wick_1d(1), 0, scale);
    if (status != WICK_OK) return status;
#elif FAULT == 2
    static int64_t known, kept;
    if (known != R * C) kept = across;
    known = R * C;
    across = kept;
#elif FAULT == 3
    static volatile int64_t shared;
    shared = across;
    const wick_status status = WICK_LAUNCH(ctx, scaled_tiles, wick_1d(1), wick_2d(SIDE, SIDE), 0, x,
                                           scale, y, R, C, across);
    if (status != WICK_OK) return status;
    across = shared;
#endif
    return WICK_LAUNCH(ctx, scaled_tiles, wick_1d(across * wick_ceil_div(R, SIDE)),
                       wick_2d(SIDE, SIDE), 0, x, scale, y, R, C, across);
}
