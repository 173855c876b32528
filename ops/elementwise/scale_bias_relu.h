/* scale_bias_relu.h -- what the two scale_bias_relu operators share: the walks, forward and back
 *
 * Forward. The rows are walked as one long array, so that neither threads nor blocks care where a
 * row ends. A bias shorter than REPEAT / 2 is first repeated to a whole number of rows, so that a
 * block meets the end of the bias at most once, and seldom; its part of the bias is then put
 * together from both ends:
 *
 *   bias    b0 b1 b2                     C = 3
 *   repeat  b0 b1 b2 b0 b1 b2 b0 ...     width = 3 * (REPEAT / 3)
 *
 * Back. What was cut off is computed again from x and bias; nothing but them is kept. dx and the
 * column sums come out of one walk over dy and x. Where rows are short, several are read as one:
 *
 *             strip 0   strip 1            a strip is STRIP columns; one walk down the rows
 *   part 0   [       ] [       ]           takes up to WIDTH columns of neighbouring strips
 *   part 1   [       ] [       ]
 *
 * Rows are divided into parts only where the partial sums fit on the stack. GROUP rows are added
 * in A; groups, rows that were read as one and parts in f64, in order. That order depends on the
 * sizes alone, so the sums do not depend on the number of threads.
 */
#ifndef SCALE_BIAS_RELU_H
#define SCALE_BIAS_RELU_H

#include "elementwise.h"

/* Before it is cut off. */
WICK_INLINE A scaled(A x, A scale, A bias) { return product(x, scale) + bias; }
WICK_INLINE A cut_off(A v) { return v < 0 ? 0 : v; }
/* `<=` and not `>`, so that dy passes where v is NaN, as in torch. */
WICK_INLINE A passed_on(A dy, A v) { return v <= 0 ? 0 : dy; }

#if !defined(__CUDACC__)

enum { REPEAT = 1024, ELEMENTS = GRAIN * BLOCK };
enum { STRIP = 64, WIDTH = 16 * STRIP, NARROW = WIDTH / 4, GROUP = 32, PARTIALS = 4096 };

/* ---- forward ---- */

typedef struct job {
    const T *x, *bias;
    A scale;
    T *y;
    int64_t count; /* elements in all */
    int64_t width; /* elements after which bias starts again */
    bool streaming;
} job;

WICK_INLINE void forward_block(const T *x, const T *bias, A scale, T *y, int64_t n, bool streaming)
{
    A room_x[BLOCK], room_bias[BLOCK], room_y[BLOCK];
    const A *x_A = wick_read_block(room_x, x, n);
    const A *bias_A = wick_read_block(room_bias, bias, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = cut_off(scaled(x_A[k], scale, bias_A[k]));
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status forward_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.count);
    int64_t c = begin * BLOCK % j.width;
    T joined[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += BLOCK) {
        const int64_t n = wick_min(BLOCK, last - i), over = c + n - j.width;
        const T *bias = j.bias + c;
        if (over > 0) {
            memcpy(joined, bias, (size_t)(n - over) * sizeof(T));
            memcpy(joined + n - over, j.bias, (size_t)over * sizeof(T));
            bias = joined;
        }
        c = over < 0 ? c + n : over;
        if (n == BLOCK)
            forward_block(j.x + i, bias, j.scale, j.y + i, BLOCK, j.streaming);
        else
            forward_block(j.x + i, bias, j.scale, j.y + i, n, j.streaming);
    }
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_FN wick_status forward(wick_ctx *ctx, const T *x, const T *bias, A scale, T *y, int64_t N,
                            int64_t C)
{
    job j = {x, bias, scale, y, N * C, C, wick_worth_streaming(N * C * (int64_t)sizeof(T))};
    T repeated[REPEAT];

    if (N > 1 && C > 0 && C <= REPEAT / 2) {
        j.bias = repeated;
        j.width = wick_min(REPEAT / C, N) * C;
        for (int64_t k = 0; k < j.width; k++)
            repeated[k] = bias[k % C];
    }
    return wick_parallel(ctx, wick_ceil_div(j.count, BLOCK), GRAIN, forward_blocks, &j);
}

/* ---- back ---- */

typedef struct backward_job {
    const T *dy, *x, *bias;
    A scale;
    T *dx, *dbias;   /* NULL where nobody wants it */
    double *dy_sum;  /* [parts, C], or NULL where dbias takes the sums at once */
    double *dyx_sum; /* [parts, C], of dy * x; NULL where nobody wants it */
    int64_t count, C;
    int64_t width;                      /* of a row as it is walked: C, or a multiple of it */
    int64_t strip, strips, rows, parts; /* rows: of each part but the last */
    bool streaming;
} backward_job;

/* sum and sum_x: the sums so far, or NULL. */
WICK_INLINE void backward_block(const backward_job *j, int64_t at, const A *bias, A *sum, A *sum_x,
                                int64_t n)
{
    A room_dy[BLOCK], room_x[BLOCK], room_dx[BLOCK], passed[BLOCK];
    const A *dy = wick_read_block(room_dy, j->dy + at, n);
    const A *x = wick_read_block(room_x, j->x + at, n);
    const A scale = j->scale;

    for (int64_t k = 0; k < n; k++)
        passed[k] = passed_on(dy[k], scaled(x[k], scale, bias[k]));
    for (int64_t k = 0; sum && k < n; k++)
        sum[k] += passed[k];
    for (int64_t k = 0; sum_x && k < n; k++)
        sum_x[k] += passed[k] * x[k];
    if (!j->dx) return;
    A *dx = wick_room_for(room_dx, j->dx + at, j->streaming);
    for (int64_t k = 0; k < n; k++)
        dx[k] = passed[k] * scale;
    wick_write_block(j->dx + at, dx, n, j->streaming);
}

WICK_FN void backward_row(const backward_job *j, int64_t at, const A *bias, A *sum, A *sum_x,
                          int64_t n)
{
    int64_t k = 0;
    for (; k + BLOCK <= n; k += BLOCK)
        backward_block(j, at + k, bias + k, sum ? sum + k : NULL, sum_x ? sum_x + k : NULL, BLOCK);
    if (k < n)
        backward_block(j, at + k, bias + k, sum ? sum + k : NULL, sum_x ? sum_x + k : NULL, n - k);
}

/* Adds up what columns of a row that is several rows have summed, each for its own c. */
WICK_FN void fold_rows(double *total, int64_t width, int64_t C)
{
    for (int64_t row = C; row < width; row += C)
        for (int64_t c = 0; c < C; c++)
            total[c] += total[row + c];
}

/* `width` columns from q on of the rows of one part. */
WICK_FN void backward_columns(const backward_job *j, int64_t part, int64_t q, int64_t width)
{
    A bias[WIDTH], sum[WIDTH], sum_x[WIDTH];
    double total[WIDTH], total_x[WIDTH];
    const bool sums = j->dbias != NULL, sums_x = j->dyx_sum != NULL;
    const int64_t n = wick_min(width, j->C);
    const int64_t last = wick_min((part + 1) * j->rows * j->width, j->count);

    for (int64_t k = 0; k < n; k++)
        bias[k] = wick_A(j->bias[q + k]);
    for (int64_t k = n; k < width; k++)
        bias[k] = bias[k - n];
    memset(total, 0, (size_t)width * sizeof *total);
    memset(total_x, 0, (size_t)width * sizeof *total_x);
    int64_t at = part * j->rows * j->width + q;
    while (at < last) {
        memset(sum, 0, (size_t)width * sizeof *sum);
        memset(sum_x, 0, (size_t)width * sizeof *sum_x);
        for (int r = 0; r < GROUP && at < last; r++, at += j->width)
            backward_row(j, at, bias, sums ? sum : NULL, sums_x ? sum_x : NULL,
                         wick_min(width, last - at));
        for (int64_t k = 0; sums && k < width; k++)
            total[k] += (double)sum[k];
        for (int64_t k = 0; sums_x && k < width; k++)
            total_x[k] += (double)sum_x[k];
    }
    fold_rows(total, width, j->C);
    fold_rows(total_x, width, j->C);
    for (int64_t k = 0; sums && k < n; k++)
        if (j->dy_sum)
            j->dy_sum[part * j->C + q + k] = total[k];
        else
            j->dbias[q + k] = wick_T((A)total[k]);
    if (sums_x) memcpy(j->dyx_sum + part * j->C + q, total_x, (size_t)n * sizeof *total_x);
}

static wick_status backward_items(void *arg, int64_t begin, int64_t end)
{
    const backward_job *j = (const backward_job *)arg;

    for (int64_t i = begin, run; i < end; i += run) {
        const int64_t strip = i % j->strips, q = strip * j->strip;
        run = wick_min(wick_min(end - i, j->strips - strip), WIDTH / j->strip);
        backward_columns(j, i / j->strips, q, wick_min(run * j->strip, j->width - q));
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

/* Cuts rows, strips and parts. Several rows as one start at multiples of 64 bytes where that is
 * easy to have. */
WICK_FN void backward_cut(backward_job *j, int64_t N)
{
    int64_t several = j->C <= NARROW ? wick_min(WIDTH / j->C, N) : 1;
    if (several >= 32) several -= several % 32;
    j->width = several * j->C;
    j->strip = j->C <= NARROW ? j->width : STRIP;
    j->strips = wick_ceil_div(j->width, j->strip);
    const int64_t rows = wick_ceil_div(j->count, j->width);
    j->rows = wick_max(wick_ceil_div(rows, wick_max(1, PARTIALS / j->C)),
                       wick_ceil_div(ELEMENTS, j->width));
    j->rows = wick_min(j->rows, rows);
    j->parts = wick_ceil_div(rows, j->rows);
}

/* dx, dbias and dscale may each be NULL; by_column has room for C numbers if dscale is not. */
WICK_FN wick_status backward(wick_ctx *ctx, backward_job *j, int64_t N, A *dscale,
                             double *by_column)
{
    double partial[PARTIALS], partial_x[PARTIALS], sum = 0;
    const int64_t C = j->C;

    j->count = N * C;
    if (j->count == 0) {
        if (j->dbias) memset(j->dbias, 0, (size_t)C * sizeof(T));
        if (dscale) *dscale = 0;
        return WICK_OK;
    }
    backward_cut(j, N);
    j->streaming = wick_worth_streaming(j->dx ? j->count * (int64_t)sizeof(T) : 0);
    if (j->parts > 1) j->dy_sum = partial;
    if (dscale) j->dyx_sum = j->parts > 1 ? partial_x : by_column;
    const int64_t work = j->rows * wick_min(j->width, j->strip); /* elements in an item */
    wick_status status =
        wick_parallel(ctx, j->parts * j->strips, wick_max(1, ELEMENTS / work), backward_items, j);
    if (status != WICK_OK) return status;

    for (int64_t c = 0; j->dbias && j->dy_sum && c < C; c++) {
        double column = 0;
        for (int64_t k = 0; k < j->parts; k++)
            column += partial[k * C + c];
        j->dbias[c] = wick_T((A)column);
    }
    for (int64_t k = 0; dscale && k < j->parts * C; k++)
        sum += j->dyx_sum[k];
    if (dscale) *dscale = (A)sum;
    return WICK_OK;
}

#endif /* !__CUDACC__ */

#endif /* SCALE_BIAS_RELU_H */
