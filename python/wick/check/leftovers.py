"""What the shared memory of a GPU holds before a call: what the last kernel left there, and so something
else on another day. No result may depend on it."""

from __future__ import annotations

import functools
from typing import Any

import torch

import wick

AT_LEAST = 48 << 10  # bytes of shared memory that every block may have, whatever the GPU

SOURCE = r"""
#include <wick/op.h>

WICK_NAMESPACE(wick_check);
WICK_OP(leave_in_shared, "x!: u8[N], word: int, bytes: int -> ()");

enum { THREADS = 1024 };

static __global__ void leave_everywhere(unsigned word, int64_t words)
{
    extern __shared__ unsigned room[];
    for (int64_t k = threadIdx.x; k < words; k += THREADS)
        ((volatile unsigned *)room)[k] = word;
}

/* A block takes all that a multiprocessor has, so that each gets one. */
WICK_IMPL wick_status leave_in_shared_cuda(wick_ctx *ctx, uint8_t *x, int64_t word, int64_t bytes,
                                           int64_t N)
{
    (void)x, (void)N;
    return WICK_LAUNCH(ctx, leave_everywhere, wick_1d(wick_multiprocessors(ctx)), wick_1d(THREADS),
                       bytes, (unsigned)word, bytes / 4);
}
"""


@functools.cache
def problem(index: int) -> str:
    """Why nothing can be left there on a device; "": it can."""
    try:
        _leave(index, 0)
    except RuntimeError as error:
        return str(error)
    return ""


def leave(device: torch.device, byte: int) -> None:
    """Fills all of it with that, in the current stream."""
    index = device.index or 0
    if not problem(index):
        _leave(index, byte)


def _leave(index: int, byte: int) -> None:
    x, size = _about(index)
    _operator()(x, byte * 0x01010101, size)


@functools.cache
def _operator() -> Any:
    return wick.load(source=SOURCE, name="wick_check_leftovers").leave_in_shared


@functools.cache
def _about(index: int) -> tuple[torch.Tensor, int]:
    """A tensor there, which says where the kernel runs, and the bytes that a block may have."""
    properties = torch.cuda.get_device_properties(index)
    size = getattr(properties, "shared_memory_per_block_optin", AT_LEAST)
    return torch.empty(1, dtype=torch.uint8, device=torch.device("cuda", index)), size
