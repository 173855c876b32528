/* reduce_sum_dim -- y[p,q] = the sum over n of x[p,n,q]
 *
 * Any tensor and dimension is such a P x N x Q. Bandwidth bound: x is read once, along its rows.
 * Work is shared out as items (p, part of N, strip of q). N is divided only where P * Q is too
 * small to occupy the threads, into parts whose partial sums fit into w:
 *
 *   x[p]     strip 0   strip 1   strip 2      a strip is STRIP columns; one walk down the rows
 *   part 0  [       ] [       ] [       ]     takes up to WIDTH columns of neighbouring strips
 *   part 1  [       ] [       ] [       ]
 *
 * The order in which an element of y is summed depends on the sizes alone, not on the number of
 * threads nor on how the strips were shared out. For Q = 1, a block of a row is summed in A, in
 * LANES lanes side by side that are then folded by halves; for Q > 1, GROUP rows are added in A,
 * four at a time. Blocks, groups and parts are added in f64, in order, so that the error hardly
 * grows with N; one rounding to T at the end. An empty sum is 0; an infinity or NaN in x gives what
 * it gives in torch. The gradient is dy[p] in every row of x[p].
 */
#include "lanes.h"
#include "reduce_sum_dim_gpu.h"

WICK_OP(reduce_sum_dim, "x: T[P, N, Q] -> y: T[P, Q] where T: f16 bf16 f32 f64"
                        " scratch w: f64[132096] batch P, Q");
WICK_OP(reduce_sum_dim_backward, "dy: T[P, Q], x: shape[P, N, Q] -> dx: T[P, N, Q]"
                                 " batch P, N, Q");

enum { PIECE = 32, STRIP = 64, WIDTH = 16 * STRIP, GROUP = 128 };
enum { PARTIALS = 4096, FEW = PARTIALS / 8, REPEAT = 1024, GRAIN = 32768 };

typedef struct job {
    const T *x;
    T *y;
    double *partial; /* [P, parts, Q], or NULL where N is not divided */
    int64_t N, Q, strips, parts;
    int64_t rows; /* of each part but the last */
} job;

WICK_FN double sum_row(const T *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        sum += (double)sum_block(x + i, wick_min(BLOCK, n - i));
    return sum;
}

/* Items where they are whole rows, Q = 1 and N not divided: short rows have no time for more. */
static wick_status sum_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;

    for (int64_t p = begin; p < end; p++)
        j->y[p] = wick_T((A)sum_row(j->x + p * j->N, j->N));
    return WICK_OK;
}

/* Adds four rows to sum, up to PIECE columns of them: what fits into registers. */
WICK_INLINE void add_piece(A *sum, const T *x, int64_t Q, int64_t n)
{
    A room_a[PIECE], room_b[PIECE], room_c[PIECE], room_d[PIECE];
    const A *a = wick_read_block(room_a, x, n);
    const A *b = wick_read_block(room_b, x + Q, n);
    const A *c = wick_read_block(room_c, x + 2 * Q, n);
    const A *d = wick_read_block(room_d, x + 3 * Q, n);
    for (int64_t k = 0; k < n; k++)
        sum[k] += (a[k] + b[k]) + (c[k] + d[k]);
}

WICK_FN void add_four_rows(A *sum, const T *x, int64_t Q, int64_t width)
{
    int64_t k = 0;
    for (; k + PIECE <= width; k += PIECE)
        add_piece(sum + k, x + k, Q, PIECE);
    if (k < width) add_piece(sum + k, x + k, Q, width - k);
}

/* The sums of 1 to WIDTH columns that lie in rows of Q elements. */
WICK_FN void sum_columns(const T *x, int64_t rows, int64_t Q, int64_t width, double *total)
{
    _Alignas(64) A sum[WIDTH];

    memset(total, 0, (size_t)width * sizeof *total);
    while (rows > 0) {
        const int64_t n = wick_min(GROUP, rows);
        int64_t r = 0;
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (; r + 4 <= n; r += 4)
            add_four_rows(sum, x + r * Q, Q, width);
        for (; r < n; r++)
            for (int64_t k = 0; k < width; k++)
                sum[k] += wick_A(x[r * Q + k]);
        for (int64_t k = 0; k < width; k++)
            total[k] += (double)sum[k];
        x += n * Q;
        rows -= n;
    }
}

/* total[k] = the sum of x[k], x[k + LANES], ... of n elements, a multiple of LANES. */
WICK_FN void sum_blocks(const T *x, int64_t n, double *total)
{
    A sum[LANES];

    memset(total, 0, LANES * sizeof *total);
    for (int64_t i = 0; i < n; i += BLOCK) {
        sum_lanes(sum, x + i, wick_min(BLOCK, n - i), LANES);
        for (int k = 0; k < LANES; k++)
            total[k] += (double)sum[k];
    }
}

/* The sums of all Q columns where they are few: g rows at a time are read as one row of g * Q. */
WICK_FN void sum_narrow(const T *x, int64_t rows, int64_t Q, double *total)
{
    double wide[LANES];
    const int64_t g = LANES / Q, all = rows / g;

    sum_columns(x + all * g * Q, rows - all * g, Q, Q, total);
    if (all == 0) return;
    if (g * Q == LANES)
        sum_blocks(x, all * LANES, wide);
    else
        sum_columns(x, all, g * Q, g * Q, wide);
    for (int64_t r = 0; r < g; r++)
        for (int64_t q = 0; q < Q; q++)
            total[q] += wide[r * Q + q];
}

static wick_status sum_items(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t Q = j->Q;
    double total[WIDTH];

    for (int64_t i = begin, run; i < end; i += run) {
        const int64_t strip = i % j->strips, part = i / j->strips;
        const int64_t p = part / j->parts, n = part % j->parts * j->rows, q = strip * STRIP;
        const int64_t rows = wick_min(j->rows, j->N - n);
        const T *x = j->x + (p * j->N + n) * Q + q;
        run = wick_min(wick_min(end - i, j->strips - strip), WIDTH / STRIP);
        const int64_t width = wick_min(run * STRIP, Q - q);
        double *sum = j->partial ? j->partial + part * Q + q : total;

        if (Q == 1)
            *sum = sum_row(x, rows);
        else if (Q <= LANES / 2)
            sum_narrow(x, rows, Q, sum);
        else
            sum_columns(x, rows, Q, width, sum);
        for (int64_t k = 0; k < width && !j->partial; k++)
            j->y[p * Q + q + k] = wick_T((A)total[k]);
    }
    return WICK_OK;
}

WICK_FN void add_parts(const job *j, int64_t P)
{
    for (int64_t p = 0; p < P; p++)
        for (int64_t q = 0; q < j->Q; q++) {
            double sum = 0;
            for (int64_t k = 0; k < j->parts; k++)
                sum += j->partial[(p * j->parts + k) * j->Q + q];
            j->y[p * j->Q + q] = wick_T((A)sum);
        }
}

WICK_IMPL wick_status reduce_sum_dim_cpu(wick_ctx *ctx, const T *x, T *y, double *w, int64_t P,
                                         int64_t N, int64_t Q)
{
    job j = {x, y, NULL, N, Q, wick_ceil_div(Q, STRIP), 1, N};
    wick_status status;

    if (P == 0 || Q == 0) return WICK_OK;
    if (P * Q <= FEW && N * Q / 2 >= GRAIN) {
        j.rows = wick_max(wick_ceil_div(N, PARTIALS / (P * Q)), wick_ceil_div(GRAIN, Q));
        j.parts = wick_ceil_div(N, j.rows);
        j.partial = w;
    }
    const int64_t work = wick_max(1, j.rows * wick_min(Q, STRIP)); /* elements in an item */
    status = wick_parallel(ctx, P * j.parts * j.strips, wick_max(1, GRAIN / work),
                           Q == 1 && !j.partial ? sum_rows : sum_items, &j);
    if (status == WICK_OK && j.partial) add_parts(&j, P);
    return status;
}

/* ---- the GPU ---- */

static __global__ void __launch_bounds__(SHORT_THREADS)
    reduce_sum_dim_short(const T *x, T *y, int64_t rows, int64_t n, int32_t lanes, bool packed)
{
    if (packed)
        short_rows(x, y, rows, n, lanes, true);
    else
        short_rows(x, y, rows, n, lanes, false);
}

static __global__ void __launch_bounds__(WARP_ROWS *WICK_WARP, 3)
    reduce_sum_dim_warps(const T *x, T *y, int64_t rows, int64_t n)
{
    const int64_t row = (int64_t)blockIdx.x * WARP_ROWS + threadIdx.x / WICK_WARP;
    const int lane = (int)threadIdx.x % WICK_WARP;
    if (row >= rows) return;
    const double sum = wick_warp_sum_f64(span_part(x + row * n, n, lane, WICK_WARP));
    if (lane == 0) y[row] = wick_T((A)sum);
}

static __global__ void __launch_bounds__(SPAN_THREADS, SPAN_RESIDENT)
    reduce_sum_dim_spans(const T *x, T *y, double *w, int64_t n, int64_t span, uint32_t parts)
{
    const uint32_t row = blockIdx.x / parts;
    double sum;
    if (!span_sum(x, n, span, row, blockIdx.x - row * parts, parts, w, &sum)) return;
    if (threadIdx.x == 0) y[row] = wick_T((A)sum);
}

static __global__ void __launch_bounds__(COLUMNS_THREADS, COLUMNS_RESIDENT)
    reduce_sum_dim_columns(const T *x, T *y, double *w, columns cut, bool packed)
{
    __shared__ double shared[COLUMNS_THREADS * WICK_PACK];
    if (packed)
        sum_columns_tile(x, y, w, cut, shared, WICK_PACK);
    else
        sum_columns_tile(x, y, w, cut, shared, 1);
}

/* Q = 1: the rows lie one after another. */
WICK_HOST_FN wick_status sum_rows_cuda(wick_ctx *ctx, const T *x, T *y, double *w, int64_t P,
                                       int64_t N)
{
    const int64_t multiprocessors = wick_multiprocessors(ctx);
    if (N <= SHORT_MOST) {
        const bool packed = N % TILE_PACK == 0 && wick_aligned16(x);
        const int32_t lanes = short_lanes(N);
        const int64_t rows = (int64_t)SHORT_THREADS / lanes * SHORT_ROWS;
        return WICK_LAUNCH(ctx, reduce_sum_dim_short, wick_1d(wick_ceil_div(P, rows)),
                           wick_1d(SHORT_THREADS), 0, x, y, P, N, lanes, packed);
    }
    if (warp_takes_a_row(P, N, multiprocessors))
        return WICK_LAUNCH(ctx, reduce_sum_dim_warps, wick_1d(wick_ceil_div(P, WARP_ROWS)),
                           wick_1d(WARP_ROWS * 32), 0, x, y, P, N);
    int64_t span;
    const int64_t parts = span_parts(P, N, multiprocessors, &span);
    return WICK_LAUNCH(ctx, reduce_sum_dim_spans, wick_1d(P * parts), wick_1d(span_threads(span)),
                       0, x, y, w, N, span, (uint32_t)parts);
}

WICK_IMPL wick_status reduce_sum_dim_cuda(wick_ctx *ctx, const T *x, T *y, double *w, int64_t P,
                                          int64_t N, int64_t Q)
{
    if (P == 0 || Q == 0) return WICK_OK;
    if (Q == 1) return sum_rows_cuda(ctx, x, y, w, P, N);
    const bool packed = Q % TILE_PACK == 0 && wick_aligned16(x);
    const columns cut =
        columns_cut(P, N, Q, packed ? TILE_PACK : 1, SUM_STEPS, wick_multiprocessors(ctx));
    return WICK_LAUNCH(ctx, reduce_sum_dim_columns, wick_1d((int64_t)cut.stripes * cut.parts),
                       wick_1d(COLUMNS_THREADS), 0, x, y, w, cut, packed);
}

/* ---- the gradient ---- */

/* Rows are written `several` at a time, of which dx[p] has `pieces`: where they are short, dy[p] is
 * repeated, and what goes past the caches is put together beside them first. */
typedef struct backward_job {
    const T *dy;
    T *dx;
    int64_t N, Q, several, pieces;
    bool streaming;
} backward_job;

/* All of to[0, n) is the row again and again. */
WICK_FN void repeat_row(T *to, const T *row, int64_t Q, int64_t n)
{
    const T first = *row;

    if (Q == 1) {
        for (int64_t k = 0; k < n; k++)
            to[k] = first;
        return;
    }
    memcpy(to, row, (size_t)Q * sizeof(T));
    for (int64_t have = Q, more; have < n; have += more) {
        more = wick_min(have, n - have);
        memcpy(to + have, to, (size_t)more * sizeof(T));
    }
}

static wick_status write_pieces(void *arg, int64_t begin, int64_t end)
{
    const backward_job j = *(const backward_job *)arg;
    int64_t p = begin / j.pieces, n = begin % j.pieces * j.several;
    T repeated[REPEAT];

    for (int64_t i = begin; i < end; i++) {
        const int64_t count = wick_min(j.several, j.N - n) * j.Q;
        const T *from = j.dy + p * j.Q;
        T *to = j.dx + (p * j.N + n) * j.Q;
        if (j.several > 1 && j.streaming) {
            if (n == 0 || i == begin) repeat_row(repeated, from, j.Q, j.several * j.Q);
            from = repeated;
        }
        if (j.several > 1 && !j.streaming)
            repeat_row(to, from, j.Q, count);
        else
            wick_write_bytes(to, from, count * (int64_t)sizeof(T), j.streaming);
        n += j.several;
        if (n >= j.N) p++, n = 0;
    }
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status reduce_sum_dim_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t P,
                                                  int64_t Q, int64_t N)
{
    if (P == 0 || N == 0 || Q == 0) return WICK_OK;
    const int64_t several = wick_max(1, wick_min(REPEAT / Q, N));
    backward_job j = {dy,
                      dx,
                      N,
                      Q,
                      several,
                      wick_ceil_div(N, several),
                      wick_worth_streaming(P * N * Q * (int64_t)sizeof(T))};
    return wick_parallel(ctx, P * j.pieces, wick_max(1, GRAIN / (several * Q)), write_pieces, &j);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    reduce_sum_dim_backward_tiles(const T *dy, T *dx, repeat_walk walk, tiles cut)
{
    if (tile_is_packed(cut))
        repeat_tile(dy, dx, walk, cut, WICK_PACK);
    else
        repeat_tile(dy, dx, walk, cut, 1);
}

WICK_IMPL wick_status reduce_sum_dim_backward_cuda(wick_ctx *ctx, const T *dy, T *dx, int64_t P,
                                                   int64_t Q, int64_t N)
{
    const tiles cut = tiles_cut(P * N * Q, wick_aligned16(dx));
    return WICK_LAUNCH(ctx, reduce_sum_dim_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads),
                       0, dy, dx, repeat_walk_of(dy, P, N, Q), cut);
}
