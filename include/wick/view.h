/* view.h -- the elements of a strided argument; part of <wick/op.h>
 *
 *   WICK_AT(const T, x, i, j)
 *
 * is the element of the view `x` at these indices: one to four, one for each dim. A debug build
 * (`wick build --debug`, which defines WICK_DEBUG) checks them: a wrong one is reported with file
 * and line and stops the program there. */
#ifndef WICK_VIEW_H
#define WICK_VIEW_H

#include <wick/types.h>

#define WICK_AT(type, view, ...)                                                                   \
    (*(type *)WICK_AT_PICK(__VA_ARGS__, WICK_AT4, WICK_AT3, WICK_AT2, WICK_AT1,                    \
                           0)(view, sizeof(type), __VA_ARGS__))
#define WICK_AT_PICK(a, b, c, d, name, ...) name
#define WICK_AT1(view, bytes, i) wick_at(view, bytes, WICK_AT_HERE(view) 1, i, 0, 0, 0)
#define WICK_AT2(view, bytes, i, j) wick_at(view, bytes, WICK_AT_HERE(view) 2, i, j, 0, 0)
#define WICK_AT3(view, bytes, i, j, k) wick_at(view, bytes, WICK_AT_HERE(view) 3, i, j, k, 0)
#define WICK_AT4(view, bytes, i, j, k, l) wick_at(view, bytes, WICK_AT_HERE(view) 4, i, j, k, l)

#if defined(WICK_DEBUG) && !defined(__CUDACC__)
#include <stdio.h>
#define WICK_AT_HERE(view) #view, __FILE__, __LINE__,
#define WICK_AT_PLACE const char *name, const char *file, int line,

WICK_HOST_FN void wick_at_check(const wick_view *view, const char *name, const char *file, int line,
                                int n, const int64_t *index)
{
    if (!view) {
        fprintf(stderr, "%s:%d: WICK_AT: %s is NULL (absent)\n", file, line, name);
        __builtin_trap();
    }
    if (view->dim != n) {
        fprintf(stderr, "%s:%d: WICK_AT: %s has %lld dims, but %d indices are given\n", file, line,
                name, (long long)view->dim, n);
        __builtin_trap();
    }
    for (int d = 0; d < n; d++) {
        if (index[d] >= 0 && index[d] < view->size[d]) continue;
        fprintf(stderr, "%s:%d: WICK_AT: index %d of %s is %lld, but its size is %lld\n", file,
                line, d, name, (long long)index[d], (long long)view->size[d]);
        __builtin_trap();
    }
}
#else
#define WICK_AT_HERE(view)
#define WICK_AT_PLACE
#endif

/* The address of an element; n is a constant, so that only the strides of n dims are read. */
WICK_FN void *wick_at(const wick_view *view, size_t bytes, WICK_AT_PLACE int n, int64_t i,
                      int64_t j, int64_t k, int64_t l)
{
    int64_t offset;
#if defined(WICK_DEBUG) && !defined(__CUDACC__)
    const int64_t index[4] = {i, j, k, l};
    wick_at_check(view, name, file, line, n, index);
#endif
    offset = i * view->stride[0];
    if (n > 1) offset += j * view->stride[1];
    if (n > 2) offset += k * view->stride[2];
    if (n > 3) offset += l * view->stride[3];
    return (char *)view->data + offset * (int64_t)bytes;
}

#endif /* WICK_VIEW_H */
