"""contenders -- who is timed in a row: the operator itself, and what it is measured beside

    wick        the direct call, wick.ops.NAME(...)
    out=        the same into memory that is there already
    dispatcher  the same through torch.ops (only when asked for)
    eager       the reference, as it is
    compile     torch.compile of the reference
    NAME        a function <operator>_baseline_NAME of the reference's file

A gradient without a reference of its own has torch differentiate the forward's: what is timed is the
backward pass alone.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import inputs
from .inputs import Call
from .shapes import Case
from .target import Operator

OURS = ("wick", "out=", "dispatcher")
OTHERS = ("eager", "compile", "dispatcher")  # that can be asked for, of whatever operator


@dataclass
class Contender:
    """A statement and its names."""

    name: str
    stmt: str
    names: dict[str, Any]

    def call(self) -> Any:
        """Once, and what it returns."""
        return eval(self.stmt, dict(self.names))  # the statement is ours


@dataclass
class Field:
    """Everybody who takes part, who does not and why, and how the inputs are put back."""

    contenders: list[Contender]
    missing: dict[str, str]
    reset: Callable[[], None] | None
    comparable: set[str]  # of them, those that are to return what the operator does
    n_outputs: int
    written: list[torch.Tensor]  # in place


def positional(name: str, function: Any, call: Call, **more: Any) -> Contender:
    """A call with its arguments in their order."""
    values = {f"a{i}": value for i, value in enumerate(call.arguments.values())}
    words = [*values, *(f"{key}=o_{key}" for key in more)]
    names = {"f": function, **values, **{f"o_{key}": value for key, value in more.items()}}
    return Contender(name, f"f({', '.join(words)})", names)


def _by_name(name: str, function: Any, arguments: dict[str, Any]) -> Contender:
    words = [f"{key}=a{i}" for i, key in enumerate(arguments)]
    names = {"f": function, **{f"a{i}": value for i, value in enumerate(arguments.values())}}
    return Contender(name, f"f({', '.join(words)})", names)


def _taken(function: Callable[..., Any], call: Call) -> dict[str, Any]:
    """The arguments that a reference takes; it may leave out what does not change its result, and ask for types."""
    taken = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return dict(call.arguments)
    return {n: value for n, value in {**call.types, **call.arguments}.items() if n in taken}


@contextlib.contextmanager
def compiled_without_end() -> Iterator[None]:
    """Inside, torch compiles a function for as many sizes as there are, and not just for eight."""
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=1 << 16, accumulated_recompile_limit=1 << 16):
        yield


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for these very sizes. What was compiled before is forgotten: torch stops compiling a
    function at the eighth time."""
    import torch._dynamo
    import torch._functorch.config

    torch._dynamo.reset()
    torch._functorch.config.donated_buffer = False  # a backward pass is run many times over
    return torch.compile(function, dynamic=False)


# ---- gradients of a reference ----


def _requires_grad(arguments: dict[str, Any], names: Collection[str]) -> list[torch.Tensor]:
    found = []
    for name in names:
        tensor = arguments[name]
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            found.append(tensor.requires_grad_())
    return found


def _backward(
    name: str, function: Callable[..., Any], forward: Operator, call: Call, wanted: list[str]
) -> Contender:
    """The backward pass of `function`, which has run once."""
    arguments = _taken(function, call)
    leaves = _requires_grad(arguments, [w for w in wanted if w in arguments])
    results = function(**arguments)
    results = results if isinstance(results, (tuple, list)) else (results,)
    outputs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if not outputs or not leaves:
        raise RuntimeError(f"nothing of {forward.name}'s reference requires a gradient")
    gradients = [torch.randn_like(r) for r in outputs]
    names = {"g": torch.autograd.grad, "o": outputs, "i": leaves, "d": gradients}
    return Contender(name, "g(o, i, d, retain_graph=True, allow_unused=True)", names)


def _gradients(operator: Operator, case: Case, device: str, seed: int) -> dict[str, Any] | None:
    """name: function that makes the contender, for a gradient whose forward has a reference."""
    forward = operator.forward()
    reference = forward.reference() if forward is not None else None
    if forward is None or reference is None:
        return None
    dims = {dim for dim, _ in forward.parameters["dims"]}
    if not dims <= set(case.dims):
        return None
    types = {variable: case.types[variable] for variable, _ in forward.parameters["variables"]}
    named = {p["name"] for p in forward.parameters["inputs"]}
    scalars = {name: value for name, value in case.scalars.items() if name in named}
    own = Case({dim: case.dims[dim] for dim in case.dims if dim in dims}, types, scalars)
    wanted = [p["name"].removeprefix("d") for p in operator.parameters["outputs"]]

    def make(name: str, function: Callable[..., Any]) -> Contender:
        call = inputs.make(
            forward.namespace, forward.name, forward.parameters, own, device, seed, forward.inputs()
        )
        return _backward(name, function, forward, call, wanted)

    return {
        "eager": lambda: make("eager", reference),
        "compile": lambda: make("compile", compiled(reference)),
    }


# ---- the field ----


def _ours(operator: Operator, call: Call, device: str, asked: Collection[str]) -> list[Contender]:
    wants = {f"want_{name}": False for name in call.unwanted}
    found = [positional("wick", operator.function, call, **wants)]
    if call.outputs and not wants and "out" not in call.arguments:  # out= takes all of them
        found.append(positional("out=", operator.function, call, out=call.out(device)))
    if "dispatcher" in asked:
        packet = getattr(getattr(torch.ops, operator.namespace), operator.name)
        found.append(positional("dispatcher", packet, call, **wants))
    return found


def _theirs(operator: Operator, case: Case, call: Call, device: str, seed: int) -> dict[str, Any]:
    """name: function that makes the contender, or why there is none."""
    reference = operator.reference()
    found: dict[str, Any] = {}

    def run(name: str, function: Callable[..., Any], how: Callable[..., Any]) -> None:
        taken = _taken(function, call)
        found[name] = lambda: _by_name(name, how(function), taken)

    if reference is not None:
        run("eager", reference, lambda f: f)
        run("compile", reference, compiled)
    else:
        stem = os.path.basename(operator.stem or operator.name)
        where = operator.reference_file or f"{stem}.py beside its source"
        none = f"no reference: a function {operator.name} in {where}"
        gradients = _gradients(operator, case, device, seed)
        found.update(gradients or dict.fromkeys(("eager", "compile"), none))
    for name, function in operator.baselines().items():
        run(name, function, lambda f: f)
    return found


def resetter(call: Call) -> Callable[[], None] | None:
    """Puts back what is written in place: values that grow without end would be timed otherwise."""
    if not call.in_place:
        return None
    pairs = [(call.arguments[name], call.arguments[name].clone()) for name in call.in_place]

    def reset() -> None:
        for tensor, was in pairs:
            tensor.copy_(was)

    return reset


def _versions(call: Call) -> dict[str, int]:
    """How often each input that nobody is to write has been written, by torch's count."""
    return {
        name: value._version
        for name, value in call.arguments.items()
        if isinstance(value, torch.Tensor) and name not in call.in_place
    }


def _put_back(
    names: list[str], call: Call, operator: Operator, case: Case, device: str, seed: int
) -> None:
    """As they were drawn."""
    about = (operator.namespace, operator.name, operator.parameters)
    again = inputs.make(*about, case, device, seed, operator.inputs())
    for name in names:
        call.arguments[name].detach().copy_(again.arguments[name])


def field(
    operator: Operator,
    case: Case,
    call: Call,
    device: Any,
    asked: Collection[str],
    seed: int,
) -> Field:
    """Who takes part. Each is called once here, so that a failure is a reason and not a crash."""
    reset = resetter(call)
    contenders = []
    missing: dict[str, str] = {}
    for contender in _ours(operator, call, device.name, asked):
        device.learn(contender.call)  # what ours raises is the caller's to tell
        contenders.append(contender)
    theirs = _theirs(operator, case, call, device.name, seed)
    for name in asked:
        if name not in theirs and name not in OURS:
            missing[name] = f"no function {operator.name}_baseline_{name} in the reference's file"
    for name, make in theirs.items():
        if asked and name not in asked:
            continue
        if isinstance(make, str):
            missing[name] = make
            continue
        before = _versions(call)
        try:
            contender = make()
            device.learn(contender.call)
            changed = [n for n, version in _versions(call).items() if version != before[n]]
            if changed:
                missing[name] = f"changes {' and '.join(changed)}, which others get as well"
                _put_back(changed, call, operator, case, device.name, seed)
            else:
                contenders.append(contender)
        except (Exception, SystemExit) as error:  # a baseline's own: any kind
            said = str(error).strip().splitlines()
            missing[name] = f"{type(error).__name__}: {said[0] if said else ''}"[:200]
    comparable = set(operator.baselines())
    if operator.reference() is not None:  # not torch's gradient, which has inputs of its own
        comparable.add("eager")
    written = [call.arguments[name] for name in call.in_place]
    n_outputs = len(operator.parameters["outputs"])
    return Field(contenders, missing, reset, comparable, n_outputs, written)
