/* packs.h -- elements as they come from memory on the GPU, 16 bytes or a single one at a time
 *
 * What was read stays as it came until it is used: unpacked earlier, the elements of narrow types
 * would have to be waited for where the ways of a whole and a partial read meet again.
 */
#ifndef PACKS_H
#define PACKS_H

#include <wick/op.h>

#if defined(__CUDACC__)

/* `pack` elements, WICK_PACK or 1 of them. Plain reads and writes: hints that nothing is needed
 * again were measured, and a GPU whose memory is the limit is slower with them. */
static __device__ __forceinline__ uint4 pack_load(const T *from, int pack)
{
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (pack == 1) {
        const T v = *from;
        memcpy(&bits, &v, sizeof v);
        return bits;
    }
    return wick_load16(from);
}

/* Element k of a pack; k is a constant once loops are unrolled. */
static __device__ __forceinline__ T pack_T(uint4 bits, int k)
{
    T v[WICK_PACK];
    memcpy(v, &bits, sizeof v);
    return v[k];
}
static __device__ __forceinline__ A pack_A(uint4 bits, int k) { return wick_A(pack_T(bits, k)); }

static __device__ __forceinline__ void pack_store(T *to, const T *v, int pack)
{
    wick_store(to, v, pack);
}

#endif /* __CUDACC__ */

#endif /* PACKS_H */
