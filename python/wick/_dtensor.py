"""DTensor: how a call may be sharded, from the `batch` dims of the signature.

    x: T[*N, C], bias: T[C] -> y: T[*N, C] batch N, C
        along N: x and y sharded, bias replicated            along C: x and y by their last dim, bias too

Along a batch dim of `foo`, `foo_backward` is independent but for the gradients of what has not that dim: each rank has a
part of their sum. Everything else is replicated first, as DTensor does with operators it knows nothing of.

Imported when torch.distributed.tensor is.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor._redistribute import redistribute_local_tensor
from torch.distributed.tensor.experimental import register_sharding

from . import _fake, _wick
from ._signature import Param, Signature, signature


def register(ns: str, name: str, function: Any) -> None:
    sig = signature(ns, name)
    dispatcher = DTensor._op_dispatcher
    # DTensor takes that for an operator without results.
    if sig.outputs and sig.outputs[0].optional:
        dispatcher._custom_op_handlers[sig.overload] = partial(_call, ns, name)
        return
    register_sharding(sig.overload)(partial(_shardings, ns, name))
    # What was decided for one call holds for another only if their numbers are the same, too.
    numbers = [i for i, p in enumerate(sig.inputs) if p.kind != "tensor"]
    dispatcher.sharding_propagator.op_to_schema_info[sig.overload] = RuntimeSchemaInfo(
        numbers[0] if numbers else 100, sig.wanted or None, needs_pytree=True
    )


class _Role(NamedTuple):
    """A tensor of the call, and the parameter whose dims it has."""

    of: Param
    summed: bool = False  # a gradient: where it has not the dim, it is a sum along it


def _shardings(ns: str, name: str, *args: Any, **keywords: Any) -> list[tuple[list, list]]:
    """What register_sharding asks for: acceptable placements of the outputs and of the inputs."""
    sig = signature(ns, name)
    values = sig.complete(args, keywords)
    wanted = dict(zip(sig.wanted, values[len(sig.inputs) :]))
    outputs = [wanted.get(f"want_{p.name}", True) for p in sig.outputs]
    tensors = [hasattr(v, "placements") for v in values[: len(args)]]
    found: list[tuple[list, list]] = [
        (
            [Replicate() if there else None for there in outputs],
            [Replicate() if there else None for there in tensors],
        )
    ]
    for roles in (_own_roles(sig), _gradient_roles(sig)):
        if roles is not None:
            found += _along_batch_dims(roles, values, outputs, tensors)
    return _keep_written(sig, values, found)


class _Roles(NamedTuple):
    dims: Signature  # whose dims they are
    inputs: list[_Role | None]  # None: not a tensor
    outputs: list[_Role]
    fixed: set[int]  # dims that a number of the call has the whole of


def _own_roles(sig: Signature) -> _Roles:
    fixed = {d for d, dim in enumerate(sig.dims) if dim.from_int >= 0}
    fixed |= {
        d for d in range(len(sig.dims)) for p in sig.inputs if p.kind == "shape" and p.mentions(d)
    }
    inputs = [_Role(p) if p.kind == "tensor" else None for p in sig.inputs]
    return _Roles(sig, inputs, [_Role(p) for p in sig.outputs], fixed)


def _gradient_roles(sig: Signature) -> _Roles | None:
    """Those of a backward, in terms of its forward."""
    stem = sig.name.removesuffix("_backward")
    for forward_name in (stem, f"{stem}_forward"):
        found = _wick.gradient(sig.ns, forward_name) if stem != sig.name else None
        if found is None or found[0] != sig.name:
            continue
        forward = signature(sig.ns, forward_name)
        inputs: list[_Role | None] = []
        fixed = set()
        for source, index, axis, _ in found[1]:
            of = (forward.outputs if source in ("gradient", "output") else forward.inputs)[index]
            if source == "size":
                fixed |= {d for d in range(len(forward.dims)) if of.axis_of(d) == axis}
            elif source == "shape" or of.kind == "shape":
                fixed |= {d for d in range(len(forward.dims)) if of.mentions(d)}
            inputs.append(
                _Role(of) if source not in ("shape", "size") and of.kind == "tensor" else None
            )
        fixed |= {d for d, dim in enumerate(forward.dims) if dim.from_int >= 0}
        outputs = [_Role(forward.inputs[index], summed=True) for index, _ in found[2]]
        return _Roles(forward, inputs, outputs, fixed)
    return None


def _along_batch_dims(
    roles: _Roles, values: Any, outputs: list[bool], tensors: list[bool]
) -> list[tuple[list, list]]:
    found = []
    everything = [r for r in roles.inputs if r is not None] + roles.outputs
    leading = _leading(roles, values)
    for d, dim in enumerate(roles.dims.dims):
        if not dim.batch or d in roles.fixed:
            continue
        if not all(r.of.stands_alone(d) or not r.of.mentions(d) for r in everything):
            continue
        if not all(r.of.mentions(d) or r.summed for r in roles.outputs):
            continue
        for axis in range(leading.get(d, 0) if dim.leading else 1):
            place = partial(_place, d, axis, leading)
            found.append(
                (
                    [place(r) if there else None for r, there in zip(roles.outputs, outputs)],
                    [place(r) if there else None for r, there in zip(roles.inputs, tensors)],
                )
            )
    return found


def _leading(roles: _Roles, values: Any) -> dict[int, int]:
    """How many dims each *N has in this call."""
    pairs = [(r.of, v) for r, v in zip(roles.inputs, values) if r is not None and v is not None]
    return {p.leading: v.ndim - len(p.sizes) for p, v in pairs if p.leading >= 0}


def _place(dim: int, axis: int, leading: dict[int, int], role: _Role | None) -> Any:
    if role is None or not role.of.mentions(dim):
        return Partial() if role is not None and role.summed else Replicate()
    named = role.of.axis_of(dim)
    rank = leading.get(role.of.leading, 0) + len(role.of.sizes)
    return Shard(axis if named is None else rank + named)


# ---- calls that DTensor cannot make ----


def _call(ns: str, name: str, func: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The cheapest of the acceptable shardings, along each dim of the mesh."""
    sig = signature(ns, name)
    values = sig.complete(args, keywords)
    mesh = next(v.device_mesh for v in values if isinstance(v, DTensor))
    shardings = _shardings(ns, name, *values[: len(sig.inputs)], **sig.split(values)[1])
    chosen = [min(shardings, key=partial(_cost, values, m)) for m in range(mesh.ndim)]
    local = list(values)
    for i, v in enumerate(values):
        if isinstance(v, DTensor):
            target = DTensorSpec(mesh, tuple(c[1][i] for c in chosen), v._spec.tensor_meta)
            local[i] = redistribute_local_tensor(v._local_tensor, v._spec, target)
    positional, wanted = sig.split(tuple(local))
    results = func(*positional, **wanted)
    several = isinstance(results, tuple)
    shapes = _fake.shapes(sig, values[: len(sig.inputs)])
    wrapped = [
        None if r is None else _wrap(r, mesh, tuple(c[0][i] for c in chosen), shape)
        for i, (r, shape) in enumerate(zip(results if several else (results,), shapes))
    ]
    return tuple(wrapped) if several else wrapped[0]


def _cost(values: tuple[Any, ...], mesh_dim: int, sharding: tuple[list, list]) -> float:
    """Elements to be sent, more or less; what is there already in full need only be cut."""
    cost = 0.0
    for v, wanted in zip(values, sharding[1]):
        if isinstance(v, DTensor) and v.placements[mesh_dim] != wanted:
            cost += v.numel() * (0.01 if v.placements[mesh_dim].is_replicate() else 1.0)
    return cost


def _wrap(result: torch.Tensor, mesh: Any, placements: Any, shape: tuple[int, ...]) -> DTensor:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    meta = TensorMeta(torch.Size(shape), tuple(strides[: len(shape)]), result.dtype)
    return DTensor._op_dispatcher.wrap(result, DTensorSpec(mesh, placements, meta))


def _keep_written(sig: Signature, values: Any, found: list[tuple[list, list]]) -> Any:
    """What is written in place must stay where it is: a copy elsewhere would be written instead."""
    for i, p in enumerate(sig.inputs):
        if p.in_place and hasattr(values[i], "placements"):
            found = [f for f in found if f[1][i] in values[i].placements]
            if not found:
                raise RuntimeError(
                    f"{sig.name}: {p.name} is written in place, but is placed as {values[i].placements}, expected "
                    "replicated or sharded along a batch dim of the signature"
                )
    return found
