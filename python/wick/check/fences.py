"""Memory of a GPU with nothing mapped before and behind it: the device stops whoever goes beyond."""

from __future__ import annotations

import functools

import torch

from .. import _wick

BYTES = 2 << 20  # of each; a tensor that needs more has none


class _Memory:
    """As torch takes memory that is not its own."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


@functools.cache
def problem(index: int) -> str:
    """Why there are none on a device; "": there are."""
    try:
        fence(index, 0)
    except RuntimeError as error:
        return str(error)
    return ""


@functools.cache
def fence(index: int, slot: int) -> torch.Tensor:
    """All bytes of one, made at the first call and kept. slot: arguments of a call have one each."""
    return torch.as_tensor(_Memory(*_wick.fenced(index, BYTES)), device=torch.device("cuda", index))


def room(index: int, slot: int, size: int, at_end: bool) -> torch.Tensor | None:
    """So many bytes right before the end of one, or right behind its start; None: it is too small."""
    whole = fence(index, slot)
    if size > whole.numel():
        return None
    start = whole.numel() - size if at_end else 0
    return whole[start : start + size]
