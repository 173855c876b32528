"""Gradients by name: a call of `foo` that needs a gradient becomes a step of autograd's graph whose way back is
`foo_backward`.

The C core has matched the names when the file was loaded (src/signature/gradient.c). Here its plan becomes a
torch.autograd.Function per operator, written out as Python code when the first gradient is asked for: what the backward
names is saved and nothing else, and no loop over arguments is left to run in a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import _wick
from ._signature import FLOATS, Param, Signature, signature

# Where torch.library writes down what was registered; absent in a torch that keeps its books differently.
_registered = getattr(torch.library, "_impls", None)

GATED = (
    "AutogradCPU",
    "AutogradCUDA",
    "AutogradMeta",
)  # the gate's keys, as in src/torch/register.c
BATCHED = ("FuncTorchBatched", "Batched")  # torch.func's vmap, and that of is_grads_batched

_gradients: dict[tuple[str, str], Callable[..., Any]] = {}


def forget(ns: str) -> None:
    """Something was loaded again: gradients of its namespace may be others."""
    for known in [key for key in _gradients if key[0] == ns]:
        del _gradients[known]


# ---- the ways that the gate knows (called from C) ----


def gradient(ns: str, name: str) -> Callable[..., Any]:
    """What makes a call in which a tensor requires grad: it takes the inputs, then every want_x."""
    found = _gradients.get((ns, name))
    if found is None:
        found = _gradients[ns, name] = _make(signature(ns, name))
    return found


def differentiate(ns: str, name: str, args: tuple[Any, ...]) -> Any:
    """A call of torch.ops in which a tensor requires grad."""
    return gradient(ns, name)(*args)


def below(ns: str, name: str, args: tuple[Any, ...]) -> Any:
    """A call that needs no gradient here, for whoever stands below autograd: a mode, a subclass, a transform."""
    sig = signature(ns, name)
    positional, wanted = sig.split(args)
    with torch._C._AutoDispatchBelowAutograd():
        return sig.overload(*positional, **wanted)


def gate(ns: str, name: str) -> Callable[..., Any]:
    """The gate in Python: for a torch whose internals the one in C (src/torch/boxed.c) cannot read, and for tracing,
    where sizes are symbols that C would turn into numbers."""

    def kernel(*args: Any, **keywords: Any) -> Any:
        values = signature(ns, name).complete(args, keywords)
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        _refuse_tangents(signature(ns, name), values)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return gradient(ns, name)(*values)
        return below(ns, name, values)

    return kernel


def batched(ns: str, name: str, args: tuple[Any, ...]) -> Any:
    """A call with tensors that vmap has batched."""
    from . import _vmap

    return _vmap.batched(ns, name, args)


def batch_kernel(ns: str, name: str) -> Callable[..., Any]:
    """The same, for arguments as torch hands them to Python."""
    return lambda *args, **keywords: batched(ns, name, signature(ns, name).complete(args, keywords))


def check_number(ns: str, name: str, argument: str, value: torch.Tensor) -> None:
    """A tensor where the signature has a number: what is read out of it has no gradient any more."""
    if not ((torch.is_grad_enabled() and value.requires_grad) or _has_tangent(value)):
        return

    def takes_tensor(other: str) -> bool:
        return any(p.name == argument and p.kind == "tensor" for p in signature(ns, other).inputs)

    kind = next(p.kind for p in signature(ns, name).inputs if p.name == argument)
    variants = [n for space, n, _ in _wick.operators() if space == ns and n.startswith(f"{name}_")]
    better = [n for n in variants if not n.endswith("_backward") and takes_tensor(n)]
    advice = f", or call {better[0]}, which takes a tensor" if better else ""
    raise RuntimeError(
        f"{name}: {argument} is a tensor that requires grad, expected a number ({kind}), which has no gradient: "
        f"give {argument}.item(){advice}"
    )


def _has_tangent(x: torch.Tensor) -> bool:
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _refuse_tangents(sig: Signature, values: tuple[Any, ...]) -> None:
    for p, v in zip(sig.inputs, values):
        if isinstance(v, torch.Tensor) and _has_tangent(v):
            raise RuntimeError(
                f"{sig.name}: {p.name} carries a forward-mode gradient (torch.func.jvp, forward_ad), and the operator "
                "has none: use reverse mode, or detach the argument"
            )


# ---- one operator ----


def _make(sig: Signature) -> Callable[..., Any]:
    results = any(p.kind == "tensor" for p in sig.outputs)
    if sig.writes and (not results or _wick.gradient(sig.ns, sig.name) is None):
        return _refuse_writing(sig, sig.inputs)
    call = _make_differentiable(sig)
    if not sig.writes:
        return call
    refuse = _refuse_writing(sig, [p for p in sig.inputs if p.in_place])

    def call_and_write(*args: Any) -> Any:
        refuse(*args)
        return call(*args)

    return call_and_write


def _make_differentiable(sig: Signature) -> Callable[..., Any]:
    written_by_hand = f"{sig.ns}/{sig.name}/Autograd"
    apply = _function(sig, sig.function)
    within: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if _registered is not None and written_by_hand in _registered:
            positional, wanted = sig.split(args)
            return sig.overload._op_dk(torch._C.DispatchKey.Autograd, *positional, **wanted)
        if torch._C._are_functorch_transforms_active():
            if not within:
                within.append(_function(sig, _lowered(sig)))
            return _apply_within_transform(within[0], args)
        return apply(*args)

    return call


def _lowered(sig: Signature) -> Callable[..., Any]:
    """The operator, one transform further down: it may need a gradient there, so grad mode, which a Function turns off
    for its forward, is on again."""

    def run(*args: Any, **wanted: Any) -> Any:
        with torch.enable_grad():
            return below(sig.ns, sig.name, (*args, *wanted.values()))

    return run


def _apply_within_transform(apply: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Function.apply itself would send the call through functorch's transforms again; here it has passed those above
    this one, and torch must be told that this is meant."""
    functorch = torch._C._functorch
    allowed = functorch.get_single_level_autograd_function_allowed()
    functorch.set_single_level_autograd_function_allowed(True)
    try:
        return apply(*args)
    finally:
        functorch.set_single_level_autograd_function_allowed(allowed)


def _refuse_writing(sig: Signature, inputs: list[Param]) -> Callable[..., Any]:
    """For those inputs; what is written beside results that have a gradient has none itself."""
    names = {p.name for p in inputs}

    def refuse(*args: Any) -> None:
        for p, v in zip(sig.inputs, args):
            if p.name in names and isinstance(v, torch.Tensor) and v.requires_grad:
                written = p.name if p.in_place else sig.writes[0]
                raise RuntimeError(
                    f"{sig.name}: {p.name} requires grad, but the operator writes {written} in place and has no "
                    "gradient: call it under torch.no_grad(), or detach the argument"
                )

    return refuse


class _Step(_SingleLevelFunction):
    """A step of the graph: torch.autograd.Function without its `apply`, which is for calls from outside of a dispatcher's
    kernel and sends them through functorch's transforms once more."""

    _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


def _function(sig: Signature, run: Callable[..., Any]) -> Callable[..., Any]:
    """The operator's torch.autograd.Function, as something to call; `run` computes its forward."""
    found = _wick.gradient(sig.ns, sig.name)
    code = _write(sig, found)
    names: dict[str, Any] = {"run": run, "sig": sig, "like": _like, "zeros": _zeros}
    names["no_gradient"], names["no_result"] = _no_gradient, _no_result
    if found is not None:
        names["run_backward"] = _wick.find(sig.ns, found[0])
    exec(compile(code, f"<gradient of {sig.qualname}>", "exec"), names)
    methods = {n: staticmethod(names[n]) for n in ("forward", "setup_context", "backward")}
    title = "".join(word.capitalize() for word in sig.name.split("_"))
    return type(title, (_Step,), methods).apply


def _like(output: torch.Tensor | None) -> tuple[Any, ...] | None:
    return None if output is None else (output.shape, output.dtype, output.device)


def _zeros(like: tuple[Any, ...] | None) -> torch.Tensor | None:
    if like is None:
        return None
    shape, dtype, device = like
    return torch.zeros(shape, dtype=dtype, device=device)


def _no_gradient(sig: Signature) -> RuntimeError:
    return RuntimeError(
        f"{sig.name}: no gradient: the operator's file defines no {_backward_name(sig)}. Define it there, or call "
        f"{sig.name} under torch.no_grad()"
    )


def _no_result(sig: Signature, index: int) -> RuntimeError:
    missing = sig.inputs[index].name
    return RuntimeError(
        f"{sig.name}: no gradient for {missing}: {_backward_name(sig)} has no result d{missing}"
    )


def _backward_name(sig: Signature) -> str:
    stem = sig.name.removesuffix("_forward")
    return f"{stem}_backward"


# ---- its code ----
#
# For mul(a, b) -> y with mul_backward(dy, a, b) -> da?, db? it reads
#
#     forward = run
#     def setup_context(ctx, inputs, output):
#         a0, a1, = inputs
#         ctx.set_materialize_grads(False)
#         ctx.save_for_backward(a0, a1)
#     def backward(ctx, g0):
#         need = ctx.needs_input_grad
#         if g0 is None: return None, None,
#         k1, k2, = ctx.saved_tensors
#         r = run_backward(g0, k1, k2, want_da=need[0], want_db=need[1])
#         return r[0], r[1]

Found = tuple[str, list[tuple[str, int, int, bool]], list[tuple[int, bool]]]  # _wick.gradient


class _Kept(NamedTuple):
    """What is kept of a call for one argument of its backward."""

    name: str
    value: str  # an expression of a0, a1, ..., the inputs, and o0, o1, ..., the outputs
    tensor: bool


def _write(sig: Signature, found: Found | None) -> str:
    n_args = len(sig.inputs) + len(sig.wanted)
    kept = _keep(sig, found) if found else []
    zeros = found is not None and len(sig.outputs) > 1  # they may stand in for a gradient
    lines = [*_write_forward(sig, n_args), *_write_setup(sig, found, kept, zeros, n_args)]
    if found is None:
        lines += ["def backward(ctx, *grads):", "    raise no_gradient(sig)"]
    else:
        lines += _write_backward(sig, found, kept, n_args)
    return "\n".join([*lines, ""])


def _list(letter: str, n: int) -> str:
    return "".join(f"{letter}{i}, " for i in range(n))


def _keep(sig: Signature, found: Found) -> list[_Kept]:
    kept = []
    for k, (source, index, axis, _) in enumerate(found[1]):
        if source == "gradient":
            continue
        param = sig.outputs[index] if source == "output" else sig.inputs[index]
        value = f"o{index}" if source == "output" else f"a{index}"
        shape = f"{value}.shape" if param.kind == "tensor" else value
        if source in ("input", "output"):
            kept.append(_Kept(f"k{k}", value, param.kind == "tensor"))
        else:
            kept.append(_Kept(f"k{k}", shape if source == "shape" else f"{shape}[{axis}]", False))
    return kept


def _write_forward(sig: Signature, n_args: int) -> list[str]:
    if not sig.wanted:
        return ["forward = run"]
    n = len(sig.inputs)
    wanted = "".join(f"{name}=a{n + i}, " for i, name in enumerate(sig.wanted))
    return [f"def forward({_list('a', n_args)}):", f"    return run({_list('a', n)}{wanted})"]


def _without_gradient(sig: Signature, found: Found | None) -> dict[str, str]:
    """Results that have none, and when: integers, and those whose gradient the backward does not take."""
    taken = [index for source, index, *_ in found[1] if source == "gradient"] if found else []
    when = {}
    for i, p in enumerate(sig.outputs):
        if p.kind == "tensor" and taken and i not in taken:
            when[f"o{i}"] = f"o{i} is not None"
        elif not FLOATS.issuperset(p.types):
            when[f"o{i}"] = f"o{i} is not None and not o{i}.is_floating_point()"
    return when


def _write_setup(
    sig: Signature, found: Found | None, kept: list[_Kept], zeros: bool, n_args: int
) -> list[str]:
    n = len(sig.outputs)
    lines = ["    ctx.set_materialize_grads(False)"]
    without = _without_gradient(sig, found)
    if without:
        lines.append("    without = []")
        lines += [f"    if {when}: without.append({o})" for o, when in without.items()]
        lines.append("    ctx.mark_non_differentiable(*without)")
    if zeros:
        lines += [f"    ctx.o{i} = like(o{i})" for i in range(n) if sig.outputs[i].kind == "tensor"]
    lines += [f"    ctx.{k.name} = {k.value}" for k in kept if not k.tensor]
    saved = [k.value for k in kept if k.tensor]
    if saved:
        lines.append(f"    ctx.save_for_backward({', '.join(saved)})")
    head = ["def setup_context(ctx, inputs, output):"]
    if any(k.value.startswith("a") for k in kept):
        head.append(f"    {_list('a', n_args)}= inputs")
    if n > 1 or saved or without:
        head.append("    o0 = output" if n == 1 else f"    {_list('o', n)}= output")
    return [*head, *lines]


def _write_backward(sig: Signature, found: Found, kept: list[_Kept], n_args: int) -> list[str]:
    _, feeds, gives = found
    n, given = len(sig.outputs), [index for index, _ in gives]
    differentiable = [i for i, p in enumerate(sig.inputs) if not FLOATS.isdisjoint(p.types)]
    lines = [f"def backward(ctx, {_list('g', n)}):"]
    only = differentiable == given and len(given) == 1  # then it is the one that is needed
    if not only:
        lines.append("    need = ctx.needs_input_grad")
    for i in differentiable:
        if i not in given:
            lines.append(f"    if need[{i}]: raise no_result(sig, {i})")
    absent = " and ".join(f"g{i} is None" for i in range(n))
    lines.append(f"    if {absent}: return {'None, ' * n_args}")
    if any(k.tensor for k in kept):
        saved = "".join(f"{k.name}, " for k in kept if k.tensor)
        lines.append(f"    {saved}= ctx.saved_tensors")
    args = {k.name: k.name if k.tensor else f"ctx.{k.name}" for k in kept}
    for k, (source, index, _, optional) in enumerate(feeds):
        if source == "gradient":
            args[f"k{k}"] = f"g{index}"
            if not optional and n > 1:
                lines.append(f"    if g{index} is None: g{index} = zeros(ctx.o{index})")
    values = [args[f"k{k}"] for k in range(len(feeds))]
    if not only:
        values += [f"want_d{sig.inputs[i].name}=need[{i}]" for i, optional in gives if optional]
    lines.append(f"    r = run_backward({', '.join(values)})")
    results = ["None"] * n_args
    for k, (index, optional) in enumerate(gives):
        r = "r" if len(gives) == 1 else f"r[{k}]"
        results[index] = r if only or optional else f"{r} if need[{index}] else None"
    return [*lines, f"    return {', '.join(results)}"]
