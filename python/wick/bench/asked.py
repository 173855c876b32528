"""asked -- what stands on the command line: which calls, on which devices, beside whom, written where"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch

from . import contenders
from .cuda import Cuda
from .host import Host
from .shapes import Case, Shapes
from .target import Operator


class AskedWronglyError(Exception):
    """What stands on the command line cannot be done."""


def devices(wanted: str | None, threads: int) -> list[Any]:
    names = [wanted] if wanted else ["cpu"] + ["cuda"] * torch.cuda.is_available()
    found: list[Any] = []
    for name in names:
        if name.startswith("cuda"):
            if not torch.cuda.is_available():
                raise AskedWronglyError(f"--device {name}: torch sees no GPU here")
            found.append(Cuda(name))
        elif name == "cpu":
            found.append(Host(threads))
        else:
            raise AskedWronglyError(f"--device {name}: expected cpu, cuda or cuda:N")
    return found


def types(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(options.types.replace(",", " ").split()) if options.types else ()


def against(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple((options.against or "").replace(",", " ").split())


def plan_calls(
    operators: Sequence[Operator], options: argparse.Namespace, verb: str
) -> list[tuple[Operator, Case]]:
    """The calls: from --size, from the files of sizes, or from the signatures. Says which operators
    have none."""
    wanted = types(options)
    if not options.size:
        found = [(op, case) for op in operators for case in op.cases(wanted)]
    else:
        shapes = Shapes("\n".join(options.size), "--size")
        shapes.check({op.name: op.parameters for op in operators})
        for op in operators:
            op.given = shapes
        found = [
            (op, Case(case.dims, {**kinds, **case.types}, case.scalars, case.absent))
            for op in operators
            for kinds in op.types(wanted)
            for case in shapes.cases(op.name, op.parameters)
        ]
        found = [call for i, call in enumerate(found) if call not in found[:i]]
    planned = {id(op) for op, _ in found}
    left_out = [_why_not(op, options) for op in operators if id(op) not in planned]
    if left_out and not found:
        raise AskedWronglyError("; ".join(left_out))
    for why in left_out:
        print(f"wick {verb}: not measured: {why}", file=sys.stderr)
    return found


def _why_not(operator: Operator, options: argparse.Namespace) -> str:
    """Of an operator without a call to measure."""
    if not operator.types(types(options)):
        variable, listed = operator.parameters["variables"][0]
        return f"--types {options.types}: {operator.name}'s {variable} is {' '.join(listed)}"
    where = (
        "--size" if options.size else operator.shapes_file and os.path.relpath(operator.shapes_file)
    )
    given = {word.partition("=")[0] for sizes in options.size or () for word in sizes.split()}
    dims = ", ".join(dim for dim, _ in operator.parameters["dims"] if dim not in given)
    return f"{where or 'sizes'}: {operator.name} needs {dims}"


def check_contenders(operators: Sequence[Operator], asked: Sequence[str]) -> None:
    """Of several operators one will do that has it."""
    known = dict.fromkeys((*contenders.OTHERS, *(n for op in operators for n in op.baselines())))
    for name in asked:
        if name not in known and name not in contenders.OURS:
            raise AskedWronglyError(
                f"--against {name}: there are {', '.join(known)}; a function "
                f"{operators[0].name}_baseline_{name} in the reference's file would be another"
            )


# ---- where it goes ----


def try_to_write(path: str) -> None:
    """Leaves no trace. What is no plain file (a pipe, /dev/null) is not opened: who reads from it would
    take the end of this for the end of everything."""
    is_new = not os.path.lexists(path)
    if is_new or os.path.isfile(path) or os.path.isdir(path):
        with open(path, "a"):
            pass
    if is_new:
        os.remove(path)


def _check_apart(options: argparse.Namespace) -> None:
    """Each output has a file of its own; the table and JSON alone may go to where commands print."""
    given: dict[str, str] = {}
    for name in ("json", "html", "profile"):
        path = getattr(options, name)
        if path == "-" and name != "json":
            raise AskedWronglyError(f"--{name} -: expected the name of a file")
        if path and path != "-":
            other = given.setdefault(os.path.realpath(path), name)
            if other != name and (os.path.isfile(path) or not os.path.exists(path)):
                raise AskedWronglyError(f"--{name} {path}: --{other} is written there")


def check_outputs(options: argparse.Namespace) -> None:
    """Everything that would spoil the end of a long run is found at its beginning."""
    if options.html or options.plots:
        from . import plots

        plots.require()
    _check_apart(options)
    trace = options.profile
    if trace and os.path.exists(trace) and not os.path.isfile(trace):
        raise AskedWronglyError(f"--profile {trace}: torch writes a trace to plain files alone")
    try:
        for path in (options.json, options.html, options.profile):
            if path and path != "-":
                try_to_write(path)
        if options.plots:
            os.makedirs(options.plots, exist_ok=True)
            try_to_write(os.path.join(options.plots, ".wick"))
    except OSError as error:
        raise AskedWronglyError(f"{error.filename}: cannot be written: {error.strerror}") from None
