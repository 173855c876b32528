"""What the C core asks of Python: the rare parts of a call, and the self-check that decides which calls are direct.

The names in this module are called from src/python; nothing here runs in a plain call.
"""

from __future__ import annotations

import os
import sys
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError(
        "wick needs torch 2.10 or newer, and none is installed here: pip install torch"
    ) from error

from torch.autograd import forward_ad

from . import _wick
from ._autograd import differentiate as differentiate  # called from C
from ._autograd import forget as _forget_gradients
from ._progress import tell as tell  # called from C

_SPECIAL, _PLAIN, _INFERENCE = 0, 1, 2  # wick_torch_tensor_kind


def _examples() -> list[tuple[torch.Tensor, int, int, int, bool]]:
    """Tensors with the right answers, from which the core learns to read dispatch keys (src/torch/internals.c)."""
    x = torch.zeros(2)
    tensors = [
        (x, _PLAIN),
        (torch.zeros(2, requires_grad=True), _PLAIN),
        (torch.nn.Parameter(torch.zeros(1)), _PLAIN),
        (torch.zeros(2, 3, dtype=torch.int64).t(), _PLAIN),
        (torch.empty(2, device="meta"), _PLAIN),
        (torch._neg_view(x), _SPECIAL),
        (torch.zeros(2, dtype=torch.complex64).conj(), _SPECIAL),
        (torch.empty(2, layout=torch.sparse_coo), _SPECIAL),
    ]
    with torch.inference_mode():
        tensors.append((torch.zeros(2), _INFERENCE))
        tensors.append((torch.empty(2, device="meta"), _INFERENCE))
    tensors.append((torch.zeros(3), _PLAIN))  # the last one is also wrapped and compared
    return [
        (t, t._cdata, torch._C._dispatch_keys(t).raw_repr(), kind, t.requires_grad)
        for t, kind in tensors
    ]


def _sees_tangents() -> bool:
    # Not forward_ad.make_dual: at its first use it compiles decompositions, which takes long and warns.
    level = torch._C._enter_dual_level()
    try:
        dual = torch._VF._make_dual(torch.zeros(2), torch.ones(2), level=level)
        return _wick.learn_tangent(dual)
    finally:
        torch._C._exit_dual_level(level=level)


def _learn() -> bool:
    try:
        if not _wick.learn(_examples()) or not _wick.learn_state():
            return False
        if not _sees_tangents():
            return False
        with torch.inference_mode():
            return _wick.learn_state()
    except (AttributeError, RuntimeError, TypeError):
        return False  # this torch is not as we know it: the public way serves


def _choose_mode() -> str:
    wanted = os.environ.get("WICK_DIRECT", "")
    known = ["internals", "dlpack", "dispatcher"]
    if wanted and wanted not in known:
        raise ImportError(f"WICK_DIRECT={wanted}: expected {', '.join(known[:-1])} or {known[-1]}")
    modes = [wanted] if wanted else known
    learnt = _learn()
    for mode in modes:
        if (mode != "internals" or learnt) and _wick.set_mode(mode):
            return mode
    if wanted:
        raise ImportError(f"WICK_DIRECT={wanted}: this torch cannot be called that way")
    raise ImportError("no way to call operators was found")


_wick.attach(torch.Tensor, torch.nn.Parameter, sys.modules[__name__])
mode = _choose_mode()
"""How direct calls reach tensors here: 'internals', 'dlpack' or 'dispatcher'."""


# ---- called from C ----


def overload(ns: str, name: str) -> Any:
    """The operator as torch.ops has it."""
    return getattr(getattr(torch.ops, ns), name).default


def forget(ns: str, name: str) -> None:
    """An operator changed its schema: torch.ops must look it up again."""
    _forget_gradients(ns, name)
    old = _gates.pop((ns, name), None)
    if old is not None:
        old._destroy()
    for namespace, attribute in ((ns, name), ("wick_raw", f"{ns}__{name}")):
        module = getattr(torch.ops, namespace)
        if attribute in module.__dict__:
            delattr(module, attribute)


_gates: dict[tuple[str, str], torch.library.Library] = {}


def gate(ns: str, name: str) -> None:
    """The gate in Python, for a torch whose internals the one in C (src/torch/boxed.c) cannot read."""
    if (ns, name) in _gates:
        return  # loaded again with the same schema: it serves on, also the calls that are in it now
    raw = getattr(torch.ops.wick_raw, f"{ns}__{name}").default

    def kernel(*args: Any, **wanted: Any) -> Any:
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if forward_ad._current_level >= 0 and any(
            forward_ad.unpack_dual(t).tangent is not None for t in tensors
        ):
            raise RuntimeError(
                f"{name}: an argument carries a forward-mode gradient (torch.func.jvp, forward_ad), "
                "and the operator has none: use reverse mode, or detach the argument"
            )
        if not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return raw(*args, **wanted)
        results = differentiate(ns, name, (*args, *wanted.values()))
        return results[0] if len(results) == 1 else results or None

    library = torch.library.Library(ns, "IMPL")
    library.impl(name, kernel, "Autograd")
    _gates[ns, name] = library


def is_quiet() -> bool:
    """No mode, tracer, transform or autocast is active: what the C core reads directly where it can."""
    return not (
        torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.is_autocast_enabled("cpu")
        or forward_ad._current_level >= 0
        or torch.autograd._profiler_enabled()
    )


def is_plain(x: torch.Tensor) -> bool:
    """Dense memory on the CPU, and nothing to be resolved first."""
    return (
        x.layout is torch.strided and x.device.type == "cpu" and not x.is_neg() and not x.is_conj()
    )


def bump_version(x: torch.Tensor) -> None:
    if not x.is_inference():
        torch.autograd.graph.increment_version(x)


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
        if torch._debug_has_internal_overlap(o) == 1:
            raise RuntimeError(
                f"{name}: out is written in place, but several of its elements share memory (an expanded tensor?): "
                "clone it first"
            )
    with torch.no_grad():
        for r, o in pairs:
            o.copy_(r)
    return out
