"""Gradients by name: a call of `foo` that needs a gradient becomes a step of autograd's graph whose way back is
`foo_backward`.

The C core has matched the names when the file was loaded (src/signature/gradient.c); here its plan is carried out. What
the backward names is saved, and nothing else.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.checkpoint

from . import _wick

# A checkpoint computes again until it has what it once saved, and stops by raising this. Through the dispatcher, which
# this call came by, only an error's words would get: so it goes on to its end, where nothing more is saved.
_StopRecomputation = getattr(torch.utils.checkpoint, "_StopRecomputationError", ())


class Plan:
    """How one operator is differentiated."""

    def __init__(self, ns: str, name: str, found: tuple[str, list[Any], list[Any]] | None) -> None:
        self.name = name
        self.call = getattr(torch.ops.wick_raw, f"{ns}__{name}").default
        self.arguments = self.call._schema.arguments
        self.positional = sum(not a.kwarg_only for a in self.arguments)
        self.writes = [
            a.name for a in self.arguments if a.alias_info is not None and a.alias_info.is_write
        ]
        self.backward_name = f"{name}_backward" if found is None else found[0]
        self.has_gradient = found is not None
        if found is not None:
            _, self.feeds, self.gives = found
            self.backward = getattr(getattr(torch.ops, ns), found[0]).default
            self.wants = [a.name for a in self.backward._schema.arguments if a.kwarg_only]

    def run(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operator itself, below autograd; always a tuple."""
        keywords = {
            a.name: v for a, v in zip(self.arguments[self.positional :], args[self.positional :])
        }
        result = self.call(*args[: self.positional], **keywords)
        return result if isinstance(result, tuple) else (result,)


_plans: dict[tuple[str, str], Plan] = {}


def forget(ns: str, name: str) -> None:
    """The operator was loaded again: its gradient may be another."""
    for known in [key for key in _plans if key[0] == ns]:
        del _plans[known]


def _plan(ns: str, name: str) -> Plan:
    plan = _plans.get((ns, name))
    if plan is None:
        plan = _plans[ns, name] = Plan(ns, name, _wick.gradient(ns, name))
    return plan


def differentiate(ns: str, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A call in which a tensor requires grad; one result per output."""
    plan = _plan(ns, name)
    if plan.writes:
        needing = [
            a.name
            for a, v in zip(plan.arguments, args)
            if isinstance(v, torch.Tensor) and v.requires_grad
        ]
        raise RuntimeError(
            f"{name}: {needing[0]} requires grad, but the operator writes {plan.writes[0]} in place and has no "
            "gradient: call it under torch.no_grad(), or detach the argument"
        )
    # Function.apply itself would send the call through functorch's transforms again; here it has passed them, and
    # torch must be told that this is meant.
    functorch = torch._C._functorch
    allowed = functorch.get_single_level_autograd_function_allowed()
    functorch.set_single_level_autograd_function_allowed(True)
    try:
        return _apply(plan, *args)
    except _StopRecomputation:
        return plan.run(args)
    finally:
        functorch.set_single_level_autograd_function_allowed(allowed)


class Step(torch.autograd.Function):
    """One call in autograd's graph."""

    @staticmethod
    def forward(plan: Plan, *args: Any) -> tuple[Any, ...]:
        return plan.run(args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        plan, args = inputs[0], inputs[1:]
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(o for o in output if isinstance(o, torch.Tensor) and not o.is_floating_point())
        )
        if not plan.has_gradient:
            return
        ctx.like = [
            (o.shape, o.dtype, o.device) if isinstance(o, torch.Tensor) else None for o in output
        ]
        ctx.fed, tensors = [], []
        for source, index, axis, _ in plan.feeds:
            if source in ("input", "output"):
                value = args[index] if source == "input" else output[index]
            elif source == "gradient":
                value = None
            else:
                shape = args[index].shape if isinstance(args[index], torch.Tensor) else args[index]
                value = list(shape) if source == "shape" else shape[axis]
            if isinstance(value, torch.Tensor):
                ctx.fed.append(len(tensors))
                tensors.append(value)
            else:
                ctx.fed.append((value,))
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        plan = ctx.plan
        if not plan.has_gradient:
            raise RuntimeError(
                f"{plan.name}: no gradient: the operator's file defines no {plan.backward_name}. Define it there, or "
                f"call {plan.name} under torch.no_grad()"
            )
        needed = ctx.needs_input_grad[1:]
        given = {index for index, _ in plan.gives}
        for index, need in enumerate(needed):
            if need and index not in given:
                missing = plan.arguments[index].name
                raise RuntimeError(
                    f"{plan.name}: no gradient for {missing}: {plan.backward_name} has no result d{missing}"
                )
        results: list[Any] = [None] * (1 + len(needed))
        if all(g is None for g in grads):
            return tuple(results)
        saved = ctx.saved_tensors
        args = []
        for (source, index, _, optional), fed in zip(plan.feeds, ctx.fed):
            if source == "gradient":
                gradient = grads[index]
                if gradient is None and not optional:
                    shape, dtype, device = ctx.like[index]
                    gradient = torch.zeros(shape, dtype=dtype, device=device)
                args.append(gradient)
            else:
                args.append(saved[fed] if isinstance(fed, int) else fed[0])
        wanted = {
            f"want_d{plan.arguments[i].name}": needed[i] for i, optional in plan.gives if optional
        }
        answer = plan.backward(*args, **wanted)
        for (index, _), gradient in zip(
            plan.gives, answer if isinstance(answer, tuple) else (answer,)
        ):
            if needed[index]:
                results[1 + index] = gradient
        return tuple(results)


# Below torch.autograd.Function.apply, and bound here: torch.compile, which may watch the call above, stops at a builtin.
_apply = super(torch.autograd.Function, Step).apply
