"""out= of a call that goes through torch.ops, which knows nothing of it. torch.compile reads this, too."""

from __future__ import annotations

from typing import Any

import torch


def refuse_gradients(name: str, args: tuple[Any, ...], out: Any) -> None:
    """As src/python/direct.c does before it calls torch.ops."""
    tensors = [*args, *(out if isinstance(out, tuple) else (out,))]
    if torch.is_grad_enabled() and any(
        t.requires_grad for t in tensors if isinstance(t, torch.Tensor)
    ):
        raise RuntimeError(
            f"{name}: an argument requires grad, so out= cannot be used: what is written in place has no gradient"
        )


def copy_out(name: str, result: Any, out: Any) -> Any:
    """out= where the call had to go through torch.ops: computed beside it, then copied."""
    values = result if isinstance(result, tuple) else (result,)
    results = [
        v for v in values if v is None or isinstance(v, torch.Tensor)
    ]  # None: an output that is not wanted
    outs = out if isinstance(out, tuple) else (out,)
    pairs = [(r, o) for r, o in zip(results, outs) if r is not None]
    for r, o in pairs:
        for what, got, wanted in (
            ("shape", list(o.shape), list(r.shape)),
            ("dtype", o.dtype, r.dtype),
            ("device", o.device, r.device),
        ):
            if got != wanted:
                raise RuntimeError(f"{name}: out has {what} {got}, expected {wanted}")
        if not torch.compiler.is_compiling() and torch._debug_has_internal_overlap(o) == 1:
            raise RuntimeError(
                f"{name}: out is written in place, but several of its elements share memory (an expanded tensor?): "
                "clone it first"
            )
    with torch.no_grad():
        for r, o in pairs:
            o.copy_(r)
    return out
