/* shape.c -- sizes and strides: counting, layout, shared memory, copying
 *
 * Strides count elements in the interface and bytes inside the overlap test and the copy, where
 * tensors of two element types meet. Sizes and strides come from the caller: every product is
 * checked, and what overflows is answered on the safe side (it may overlap).
 */
#include "core.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- counting and layout ---- */

static bool is_empty(int dim, const int64_t *size)
{
    for (int i = 0; i < dim; i++) {
        if (size[i] == 0) return true;
    }
    return false;
}

WICK_HOT int64_t wick_shape_numel(int dim, const int64_t *size)
{
    if (is_empty(dim, size)) return 0;
    int64_t numel = 1;
    for (int i = 0; i < dim; i++) {
        if (size[i] < 0 || __builtin_mul_overflow(numel, size[i], &numel)) return -1;
    }
    return numel;
}

void wick_shape_contiguous_strides(int dim, const int64_t *size, int64_t *stride)
{
    int64_t next = 1;
    for (int i = dim - 1; i >= 0; i--) {
        stride[i] = next;
        /* Only the strides of an empty tensor get this far, and nobody follows those. */
        if (size[i] > 1 && __builtin_mul_overflow(next, size[i], &next)) next = INT64_MAX;
    }
}

bool wick_shape_is_contiguous(int dim, const int64_t *size, const int64_t *stride)
{
    if (!stride || is_empty(dim, size)) return true;
    int64_t expected = 1;
    for (int i = dim - 1; i >= 0; i--) {
        if (size[i] == 1) continue;
        if (stride[i] != expected) return false;
        if (__builtin_mul_overflow(expected, size[i], &expected)) return false;
    }
    return true;
}

void wick_shape_print(wick_text *out, int dim, const int64_t *size)
{
    wick_text_add(out, "[");
    for (int i = 0; i < dim; i++) {
        wick_text_printf(out, "%s%" PRId64, i ? ", " : "", size[i]);
    }
    wick_text_add(out, "]");
}

/* ---- shared memory ---- */

/* The bytes a tensor touches: from `low`, one step per dim that moves. Dims of size 1 and of stride
 * 0 do not move the address and are left out; a negative stride is a positive one from a lower
 * start. */
typedef struct footprint {
    uint64_t low, bytes; /* of the whole; `bytes` counts from low to the last byte */
    uint64_t element;
    int n;
    uint64_t step[WICK_MAX_RANK], extent[WICK_MAX_RANK]; /* extent = (size - 1) * step */
} footprint;

/* False when it does not fit the address space. Not for empty tensors. */
static bool find_footprint(const wick_view *v, const int64_t *stride, size_t element,
                           footprint *out)
{
    out->low = (uint64_t)(uintptr_t)v->data;
    out->bytes = out->element = element;
    out->n = 0;
    for (int64_t i = 0; i < v->dim; i++) {
        if (v->size[i] == 1 || stride[i] == 0) continue;
        uint64_t step = stride[i] < 0 ? 0 - (uint64_t)stride[i] : (uint64_t)stride[i], extent;
        if (__builtin_mul_overflow(step, (uint64_t)element, &step) ||
            __builtin_mul_overflow(step, (uint64_t)v->size[i] - 1, &extent) ||
            __builtin_add_overflow(out->bytes, extent, &out->bytes)) {
            return false;
        }
        if (stride[i] < 0 && __builtin_sub_overflow(out->low, extent, &out->low)) return false;
        out->step[out->n] = step;
        out->extent[out->n++] = extent;
    }
    return out->bytes <= UINT64_MAX - out->low;
}

/* The bytes that remain when addresses are taken modulo m: dims whose step m divides fold into one.
 */
static uint64_t bytes_modulo(const footprint *f, uint64_t m)
{
    uint64_t bytes = f->element;
    for (int i = 0; i < f->n; i++) {
        if (f->step[i] % m) bytes += f->extent[i];
    }
    return bytes;
}

/* Equal addresses are equal modulo anything, so tensors apart modulo some m are apart.
 *
 *   0           a's bytes      apart             b's bytes      m
 *   |###################|......................|###############|.|
 */
static bool apart_modulo(const footprint *a, const footprint *b, uint64_t m)
{
    uint64_t a_bytes = bytes_modulo(a, m), b_bytes = bytes_modulo(b, m);
    uint64_t apart = b->low >= a->low ? (b->low - a->low) % m : (m - (a->low - b->low) % m) % m;
    return apart >= a_bytes && b_bytes <= m && apart <= m - b_bytes;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* True only when no byte is shared. The moduli worth trying are the steps themselves (columns
 * beside each other: the row's) and the divisor of all (every other element). */
static bool are_apart(const footprint *a, const footprint *b)
{
    if (a->low + a->bytes <= b->low || b->low + b->bytes <= a->low) return true;
    uint64_t divisor = 0;
    for (int i = 0; i < a->n; i++) {
        divisor = gcd(divisor, a->step[i]);
        if (apart_modulo(a, b, a->step[i])) return true;
    }
    for (int i = 0; i < b->n; i++) {
        divisor = gcd(divisor, b->step[i]);
        if (apart_modulo(a, b, b->step[i])) return true;
    }
    return divisor && apart_modulo(a, b, divisor);
}

static bool same_layout(const wick_view *a, const int64_t *a_stride, const wick_view *b,
                        const int64_t *b_stride)
{
    if (a->data != b->data || a->dim != b->dim) return false;
    for (int64_t i = 0; i < a->dim; i++) {
        if (a->size[i] != b->size[i]) return false;
        if (a->size[i] != 1 && a_stride[i] != b_stride[i]) return false;
    }
    return true;
}

/* The strides, spelt out where NULL stands for contiguous. */
static const int64_t *strides_of(int dim, const int64_t *size, const int64_t *stride,
                                 int64_t storage[WICK_MAX_RANK])
{
    if (stride) return stride;
    wick_shape_contiguous_strides(dim, size, storage);
    return storage;
}

wick_overlap wick_shape_overlap(const wick_view *a, size_t a_bytes, const wick_view *b,
                                size_t b_bytes)
{
    assert(a->dim <= WICK_MAX_RANK && b->dim <= WICK_MAX_RANK && a_bytes > 0 && b_bytes > 0);
    if (is_empty((int)a->dim, a->size) || is_empty((int)b->dim, b->size)) return WICK_OVERLAP_NONE;
    int64_t a_storage[WICK_MAX_RANK], b_storage[WICK_MAX_RANK];
    const int64_t *a_stride = strides_of((int)a->dim, a->size, a->stride, a_storage);
    const int64_t *b_stride = strides_of((int)b->dim, b->size, b->stride, b_storage);
    if (a_bytes == b_bytes && same_layout(a, a_stride, b, b_stride)) return WICK_OVERLAP_EXACT;
    footprint fa, fb;
    if (!find_footprint(a, a_stride, a_bytes, &fa) || !find_footprint(b, b_stride, b_bytes, &fb)) {
        return WICK_OVERLAP_PARTIAL;
    }
    return are_apart(&fa, &fb) ? WICK_OVERLAP_NONE : WICK_OVERLAP_PARTIAL;
}

/* With the dims in order of their steps, no two indices meet if each step leaps over all that the
 * smaller ones reach. Slicing, transposing and taking a diagonal keep that; expanding breaks it by
 * a step of 0, and rightly so. */
bool wick_shape_overlaps_itself(int dim, const int64_t *size, const int64_t *stride)
{
    assert(dim <= WICK_MAX_RANK);
    if (!stride || is_empty(dim, size)) return false;
    uint64_t step[WICK_MAX_RANK], count[WICK_MAX_RANK];
    int n = 0;
    for (int i = 0; i < dim; i++) {
        if (size[i] == 1) continue;
        uint64_t s = stride[i] < 0 ? 0 - (uint64_t)stride[i] : (uint64_t)stride[i];
        int at = n++;
        for (; at > 0 && step[at - 1] > s; at--) {
            step[at] = step[at - 1];
            count[at] = count[at - 1];
        }
        step[at] = s;
        count[at] = (uint64_t)size[i];
    }
    uint64_t reach = 0;
    for (int i = 0; i < n; i++) {
        uint64_t extent;
        if (step[i] <= reach) return true;
        if (__builtin_mul_overflow(step[i], count[i] - 1, &extent) ||
            __builtin_add_overflow(reach, extent, &reach)) {
            return true;
        }
    }
    return false;
}

/* ---- copying ---- */

typedef struct axis {
    int64_t size, dst, src; /* steps in bytes */
} axis;

static bool is_outside(const axis *a, const axis *b)
{
    int64_t a_dst = a->dst < 0 ? -a->dst : a->dst, b_dst = b->dst < 0 ? -b->dst : b->dst;
    int64_t a_src = a->src < 0 ? -a->src : a->src, b_src = b->src < 0 ? -b->src : b->src;
    return a_dst != b_dst ? a_dst > b_dst : a_src > b_src;
}

/* The dims that move, the one with the smallest step in dst last, so that writes are as sequential
 * as they can be; neighbours that are one run in both tensors become one. Returns how many are
 * left. */
static int plan_copy(int dim, const int64_t *size, const int64_t *dst_stride,
                     const int64_t *src_stride, int64_t element, axis out[WICK_MAX_RANK])
{
    int n = 0, kept = 0;
    for (int i = 0; i < dim; i++) {
        if (size[i] == 1) continue;
        axis a = {size[i], dst_stride[i] * element, src_stride[i] * element};
        int at = n++;
        for (; at > 0 && is_outside(&a, &out[at - 1]); at--) {
            out[at] = out[at - 1];
        }
        out[at] = a;
    }
    for (int i = 1; i < n; i++) {
        axis *outer = &out[kept], inner = out[i];
        if (outer->dst == inner.dst * inner.size && outer->src == inner.src * inner.size) {
            *outer = (axis){outer->size * inner.size, inner.dst, inner.src};
        } else {
            out[++kept] = inner;
        }
    }
    if (n) return kept + 1;
    out[0] = (axis){1, element, element};
    return 1;
}

/* Inlined with a literal `bytes`, the memcpy is one load and one store of that width. */
static inline void copy_elements(const axis *row, char *dst, const char *src, size_t bytes)
{
    for (int64_t i = 0; i < row->size; i++) {
        memcpy(dst + i * row->dst, src + i * row->src, bytes);
    }
}

static void copy_row(const axis *row, char *dst, const char *src, size_t element)
{
    if (row->dst == (int64_t)element && row->src == (int64_t)element) {
        memcpy(dst, src, (size_t)row->size * element);
        return;
    }
    switch (element) {
    case 1: copy_elements(row, dst, src, 1); break;
    case 2: copy_elements(row, dst, src, 2); break;
    case 4: copy_elements(row, dst, src, 4); break;
    case 8: copy_elements(row, dst, src, 8); break;
    default: copy_elements(row, dst, src, element);
    }
}

void wick_shape_copy(int dim, const int64_t *size, void *dst, const int64_t *dst_stride,
                     const void *src, const int64_t *src_stride, size_t element_bytes)
{
    assert(dim <= WICK_MAX_RANK);
    if (is_empty(dim, size)) return;
    int64_t dst_storage[WICK_MAX_RANK], src_storage[WICK_MAX_RANK], index[WICK_MAX_RANK] = {0};
    axis axes[WICK_MAX_RANK];
    dst_stride = strides_of(dim, size, dst_stride, dst_storage);
    src_stride = strides_of(dim, size, src_stride, src_storage);
    int n = plan_copy(dim, size, dst_stride, src_stride, (int64_t)element_bytes, axes);
    int64_t dst_at = 0, src_at = 0;
    for (;;) {
        copy_row(&axes[n - 1], (char *)dst + dst_at, (const char *)src + src_at, element_bytes);
        int i = n - 2;
        for (; i >= 0; i--) {
            dst_at += axes[i].dst;
            src_at += axes[i].src;
            if (++index[i] < axes[i].size) break;
            index[i] = 0;
            dst_at -= axes[i].dst * axes[i].size;
            src_at -= axes[i].src * axes[i].size;
        }
        if (i < 0) return;
    }
}
