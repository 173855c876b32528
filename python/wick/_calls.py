"""What the C core asks of Python: the rare parts of a call, and the self-check that decides which calls are direct.

The names in this module are called from src/python; nothing here runs in a plain call.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":  # it is there, and something is wrong with it
        raise
    raise ImportError(
        "wick needs torch 2.10 or newer, and none is installed here: pip install torch"
    ) from error

from torch.autograd import forward_ad

from . import _autograd, _compile, _wick
from ._autograd import batched as batched  # these are called from C
from ._autograd import below as below
from ._autograd import check_number as check_number
from ._autograd import differentiate as differentiate
from ._autograd import gradient as gradient
from ._out import copy_out as copy_out
from ._progress import tell as tell
from ._signature import forget as _forget_signature

_SPECIAL, _PLAIN, _INFERENCE = 0, 1, 2  # wick_torch_tensor_kind
_DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16]
_DTYPES += [torch.int32, torch.uint8, torch.bool]


def _examples() -> list[tuple[torch.Tensor, int, int, int, bool, int, bool, int]]:
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
    for rank, dtype in enumerate(_DTYPES):  # of every rank and type: where are they kept?
        tensors.append((torch.empty_strided([2] * rank, [7 + rank] * rank, dtype=dtype), _PLAIN))
    tensors += [(torch.zeros(9)[first:], _PLAIN) for first in (2, 5)]
    for times in (1, 2, 5):
        tensors.append((torch.zeros(2), _PLAIN))
        for _ in range(times):
            tensors[-1][0].zero_()
    shared = torch._lazy_clone(torch.zeros(2))
    tensors.append((shared, _PLAIN))
    with torch.inference_mode():
        tensors.append((torch.zeros(2), _INFERENCE))
        tensors.append((torch.empty(2, device="meta"), _INFERENCE))
    tensors.append((torch.zeros(3), _PLAIN))  # the last one is also wrapped and compared
    return [
        (
            t,
            t._cdata,
            torch._C._dispatch_keys(t).raw_repr(),
            kind,
            t.requires_grad,
            t.untyped_storage()._cdata if t.device.type == "cpu" and kind != _SPECIAL else 0,
            t is shared,
            t._version if kind == _PLAIN else 0,
        )
        for t, kind in tensors
    ]


def _expect_cuda(examples: list[tuple[Any, ...]]) -> None:
    """The keys of plain tensors on a GPU, from those of the examples: making a tensor there would start CUDA."""

    def raw(key: str) -> int:
        return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)).raw_repr()

    def moved(keys: int, device: str, autocast: int) -> int:
        cpu, there = (raw(d) & raw(f"Autograd{d}") for d in ("CPU", device))  # the device's own bit
        return keys & ~(cpu | raw("AutocastCPU")) | there | autocast

    seen = {(t.device.type, kind): keys for t, _, keys, kind, *_ in examples if kind != _SPECIAL}
    try:
        for kind in (_PLAIN, _INFERENCE):
            keys = seen["cpu", kind]
            if moved(keys, "Meta", 0) == seen["meta", kind]:  # else keys are made up in another way
                _wick.expect(moved(keys, "CUDA", raw("AutocastCUDA")), kind)
    except (AttributeError, TypeError):
        pass  # this torch has other keys: CUDA tensors take the public way


def _sees_tangents() -> bool:
    # Not forward_ad.make_dual: at its first use it compiles decompositions, which takes long and warns.
    level = torch._C._enter_dual_level()
    try:
        dual = torch._VF._make_dual(torch.zeros(2), torch.ones(2), level=level)
        return _wick.learn_tangent(dual)
    finally:
        torch._C._exit_dual_level(level=level)


def _learn_autocast() -> None:
    """Where it is not recognised, it is a state like any other that is not plain."""
    for device in ("cpu", "cuda"):
        was = torch.is_autocast_enabled(device)
        torch.set_autocast_enabled(device, True)
        _wick.learn_autocast()
        torch.set_autocast_enabled(device, was)


def _learn() -> bool:
    try:
        examples = _examples()
        if not _wick.learn(examples) or not _wick.learn_state():
            return False
        _expect_cuda(examples)
        if not _sees_tangents():
            return False
        _learn_autocast()
        with torch.inference_mode():
            return _wick.learn_state()
    except (AttributeError, RuntimeError, TypeError):
        return False  # this torch is not as we know it: the public way serves


def _learns() -> bool:
    """In a thread of its own: whatever mode, transform or autocast we are imported under, there is none there."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(_learn()))
    thread.start()
    thread.join()
    return answers == [True]


def _choose_mode() -> str:
    wanted = os.environ.get("WICK_DIRECT", "")
    known = ["internals", "dlpack", "dispatcher"]
    if wanted and wanted not in known:
        raise ImportError(f"WICK_DIRECT={wanted}: expected {', '.join(known[:-1])} or {known[-1]}")
    modes = [wanted] if wanted else known
    learnt = _learns()
    for mode in modes:
        if (mode != "internals" or learnt) and _wick.set_mode(mode):
            return mode
    if wanted:
        raise ImportError(f"WICK_DIRECT={wanted}: this torch cannot be called that way")
    raise ImportError("no way to call operators was found")


def _packages() -> tuple[str, ...]:
    """Folders of Python's packages, torch's first: NVRTC is in one of them, or beside torch."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    return (beside, *(p for p in sys.path if p.endswith(("site-packages", "dist-packages"))))


_wick.attach(torch.Tensor, torch.nn.Parameter, sys.modules[__name__], _packages())
mode = _choose_mode()
"""How direct calls reach tensors here: 'internals', 'dlpack' or 'dispatcher'."""
learnt: list[str] = _wick.learnt()
"""Of 'layout', 'memory', 'versions', 'devices' what calls read where torch keeps it, and need not ask for."""


# ---- called from C ----


def overload(ns: str, name: str) -> Any:
    """The operator as torch.ops has it."""
    return getattr(getattr(torch.ops, ns), name).default


def forget(ns: str, name: str) -> None:
    """An operator changed its schema: torch.ops must look it up again."""
    old = _gates.pop((ns, name), None)
    if old is not None:
        old._destroy()
    module = getattr(torch.ops, ns)
    if name in module.__dict__:
        delattr(module, name)


def published(ns: str, name: str, function: Any, autocasts: bool) -> None:
    """An operator was loaded, maybe not for the first time."""
    _forget_signature(ns, name)
    _autograd.forget(ns)
    _compile.published(ns, name, function)
    if autocasts:
        from . import _autocast

        _autocast.register(ns, name)


_RAISING = "TESTING_ONLY_GenericMode"  # a dispatch key above all others, and nobody's
_pending = threading.local()
_raisers: list[torch.library.Library] = []


def raise_next(error: BaseException) -> None:
    """Torch raises this when it is next asked for aten::is_vulkan_available, which src/torch/boxed.c does at once: so an
    exception passes torch's C++ code as what it is, and not as its words."""
    if not _raisers:
        library = torch.library.Library("aten", "IMPL")
        library.impl("is_vulkan_available", _raise, _RAISING)
        _raisers.append(library)
    _pending.error = error
    torch._C._dispatch_tls_set_dispatch_key_included(_RAISING, True)


def _raise() -> None:
    torch._C._dispatch_tls_set_dispatch_key_included(_RAISING, False)
    error = _pending.error
    del _pending.error
    try:
        raise error
    finally:
        del error  # else it would hold its own traceback, and that every tensor of the call


_gates: dict[tuple[str, str], torch.library.Library] = {}


def gate(ns: str, name: str) -> None:
    """The kernels that C adds itself where torch's internals can be read."""
    if (ns, name) in _gates:
        return  # loaded again with the same schema: it serves on, also the calls that are in it now
    kernel = _autograd.gate(ns, name)
    library = torch.library.Library(ns, "IMPL")
    for key in _autograd.GATED:
        library.impl(name, kernel, key)
    for key in _autograd.BATCHED:
        library.impl(name, _autograd.batch_kernel(ns, name), key)
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
