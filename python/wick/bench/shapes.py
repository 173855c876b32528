"""shapes -- the sizes that an operator is measured at: from a file, or from its signature

    # relu.shapes.txt, beside relu.c: one call per line
    N=8x2048x4096                    every dim; one that stands for several (*N) as a product
    N=1000003 T=bf16 slope=0.1       and what else the signature has: types, numbers, choices
    N=4096 bias=none                 an optional tensor that is absent, or a result that is not wanted

    [relu_backward]                  the lines below are for this operator alone
    flops: 2*N                       what the call computes, over the same names
    bytes: 2*N*T                     what it moves, where that is not every byte of its tensors

Lines before the first [...] are for every operator of the file that has all its dims in them.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _wick
from .._signature import DTYPES

SWEEP = (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
"""Bytes that the calls of a sweep move, where no file names sizes."""

Dims = dict[str, "int | tuple[int, ...]"]


class ShapesError(Exception):
    """A line that cannot be read; begins FILE:LINE:"""


@dataclass(frozen=True)
class Case:
    """One call to be measured, without its tensors."""

    dims: Dims
    types: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    def words(self) -> str:
        """As a line of the file, without the types."""
        parts = [f"{name}={_size_words(value)}" for name, value in self.dims.items()]
        parts += [f"{name}={value}" for name, value in self.scalars.items()]
        return " ".join(parts + [f"{name}=none" for name in self.absent]) or "-"


def _size_words(value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    return "x".join(map(str, value)) if value else "()"


# ---- formulas ----

FORMULAS = ("flops", "bytes")


def _power(base: float, exponent: float) -> float:
    """Of floats, so that none takes forever."""
    try:
        return math.pow(base, exponent)
    except ValueError:
        raise ValueError(f"{base:g} ** {exponent:g} is not a number") from None


_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: _power,
    ast.USub: operator.neg,
}


def evaluate(text: str, names: Mapping[str, float]) -> float:
    """The value of a formula of numbers, names, + - * / // ** and brackets."""

    def value(node: ast.AST) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.operand))
        known = ", ".join(names)
        raise ValueError(f"{ast.unparse(node)} is not a number, a name ({known}) or + - * / // **")

    return value(_parse(text))


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):  # the latter two: brackets without end
        raise ValueError(f"{text.strip()[:60]!r} is not a formula") from None


def numbers_of(parameters: Mapping[str, Any], case: Case) -> dict[str, float]:
    """What a formula may name: dims (a *N as its product), int and float arguments."""
    found: dict[str, float] = {}
    for p in parameters["inputs"]:
        if p["kind"] in ("int", "float") and ("default" in p or p["name"] in case.scalars):
            found[p["name"]] = case.scalars.get(p["name"], p.get("default"))
    for name, value in case.dims.items():
        found[name] = value if isinstance(value, int) else math.prod(value)
    return found


# ---- the file ----


@dataclass
class _Line:
    place: str  # FILE:LINE
    operator: str | None
    values: dict[str, str]


class Shapes:
    """What a file of sizes says."""

    def __init__(self, text: str, file: str) -> None:
        self.lines: list[_Line] = []
        self.formulas: dict[str, dict[str | None, tuple[str, str]]] = {
            what: {} for what in FORMULAS
        }  # of what: operator: place, formula
        self.operators: dict[str, str] = {}  # those that have a section: place
        current: str | None = None
        for number, raw in enumerate(text.splitlines(), 1):
            line, place = raw.split("#", 1)[0].strip(), f"{file}:{number}"
            if not line:
                continue
            if head := re.fullmatch(r"\[\s*(\w+)\s*\]", line):
                current = head[1]
                self.operators.setdefault(current, place)
            elif formula := re.fullmatch(rf"({'|'.join(FORMULAS)})\s*:\s*(.+)", line):
                self.formulas[formula[1]][current] = (place, formula[2])
            else:
                self.lines.append(_Line(place, current, _read_line(line, place)))

    def check(self, operators: Mapping[str, Mapping[str, Any]]) -> None:
        """Every name is one of the file's operators'."""
        for name, place in self.operators.items():
            if name not in operators:
                raise ShapesError(f"{place}: there is no operator {name}: {', '.join(operators)}")
        for line in self.lines:
            chosen = [operators[line.operator]] if line.operator else list(operators.values())
            known = {name for parameters in chosen for name in _names(parameters)}
            for name in line.values:
                if name not in known:
                    listed = ", ".join(sorted(known))
                    raise ShapesError(f"{line.place}: {name} is no name of a signature: {listed}")
        for what, formulas in self.formulas.items():
            for section, (place, formula) in formulas.items():
                chosen = [operators[section]] if section else list(operators.values())
                _check_formula(formula, place, {n for p in chosen for n in _number_names(p, what)})

    def cases(self, name: str, parameters: Mapping[str, Any]) -> list[Case]:
        """The calls of one operator."""
        wanted = {dim for dim, _ in parameters["dims"]}
        found: list[Case] = []
        for line in self.lines:
            if line.operator not in (None, name):
                continue
            if missing := sorted(wanted - set(line.values)):
                if line.operator is None:
                    continue
                raise ShapesError(f"{line.place}: {', '.join(missing)} has no size")
            case = _read_case(line, parameters)
            if case not in found:
                found.append(case)
        return found

    def declared(
        self, what: str, name: str, parameters: Mapping[str, Any], case: Case
    ) -> float | None:
        """Flops or bytes of a call; None where no formula speaks of them."""
        formulas = self.formulas[what]
        place, formula = formulas.get(name) or formulas.get(None) or ("", "")
        if not formula:
            return None
        numbers = numbers_of(parameters, case)
        if what == "bytes":
            numbers.update({v: DTYPES[word].itemsize for v, word in case.types.items()})
        if name not in formulas and not _names_in(formula) <= set(numbers):
            return None  # a formula for all, over names that this one has not
        where = f"{place}: {what}: {formula}"
        try:
            value = float(evaluate(formula, numbers))
        except ZeroDivisionError:
            raise ShapesError(f"{where} divides by 0 at {case.words()}") from None
        except OverflowError:
            raise ShapesError(f"{where} is too large a number") from None
        except ValueError as error:
            raise ShapesError(f"{place}: {error}") from None
        if not 0 <= value < math.inf:
            raise ShapesError(f"{where} is {value:g} at {case.words()}, expected 0 or more")
        return value


def _names_in(formula: str) -> set[str]:
    return {node.id for node in ast.walk(_parse(formula)) if isinstance(node, ast.Name)}


def _check_formula(text: str, place: str, known: set[str]) -> None:
    try:
        used = _names_in(text)
    except ValueError as error:
        raise ShapesError(f"{place}: {error}") from None
    if unknown := sorted(used - known):
        listed = ", ".join(sorted(known))
        raise ShapesError(f"{place}: {unknown[0]} is no dim and no number: {listed}")


def _number_names(parameters: Mapping[str, Any], what: str) -> list[str]:
    """What a formula may name; one of bytes also type variables, for the bytes of an element."""
    numbers = [p["name"] for p in parameters["inputs"] if p["kind"] in ("int", "float")]
    types = [variable for variable, _ in parameters["variables"]] if what == "bytes" else []
    return [*numbers, *types, *(dim for dim, _ in parameters["dims"])]


def _names(parameters: Mapping[str, Any]) -> list[str]:
    return [
        *(dim for dim, _ in parameters["dims"]),
        *(variable for variable, _ in parameters["variables"]),
        *(p["name"] for p in parameters["inputs"] if p["kind"] != "shape"),
        *(p["name"] for p in parameters["outputs"] if p["optional"]),
    ]


def _read_line(line: str, place: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in line.split():
        pair = re.fullmatch(r"(\w+)=(\S+)", word)
        if not pair:
            raise ShapesError(f"{place}: {word!r} is not NAME=VALUE")
        if pair[1] in values:
            raise ShapesError(f"{place}: {pair[1]} is given twice")
        values[pair[1]] = pair[2]
    return values


def _read_size(text: str, is_leading: bool) -> int | tuple[int, ...]:
    if is_leading and text == "()":
        return ()
    sizes = tuple(int(part) for part in text.split("x"))
    if min(sizes) < 0 or (len(sizes) > 1 and not is_leading):
        raise ValueError(text)
    return sizes if is_leading else sizes[0]


def _read_choice(p: Mapping[str, Any], text: str) -> str:
    """In quotes, as the signature has it, or without."""
    word = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if word not in p["choices"]:
        raise ValueError(text)
    return word


def _read_scalar(p: Mapping[str, Any], text: str) -> Any:
    if p["kind"] == "bool":
        return {"true": True, "false": False}[text.lower()]
    if p["kind"] == "choice":
        return _read_choice(p, text)
    return {"int": int, "float": float}.get(p["kind"], str)(text)


def _read_case(line: _Line, parameters: Mapping[str, Any]) -> Case:
    case = Case({}, {}, {})
    absent = []
    optional = [p for p in parameters["outputs"] if p["optional"]]
    named = {p["name"]: p for p in (*optional, *parameters["inputs"])}
    for dim, is_leading in parameters["dims"]:
        try:
            case.dims[dim] = _read_size(line.values[dim], is_leading)
        except ValueError:
            what = "a product of sizes such as 8x2048" if is_leading else "a size"
            raise ShapesError(f"{line.place}: {dim}={line.values[dim]} is not {what}") from None
    for name, text in line.values.items():
        variable = dict(parameters["variables"]).get(name)
        p = named.get(name)
        if variable is not None:
            if text not in variable:
                raise ShapesError(f"{line.place}: {name}={text} is none of {' '.join(variable)}")
            case.types[name] = text
        elif p is None or name in case.dims:
            continue  # another operator's
        elif p["kind"] == "tensor":
            if text != "none" or not p["optional"]:
                raise ShapesError(f"{line.place}: {name}={text}: only an optional can be =none")
            absent.append(name)
        else:
            try:
                case.scalars[name] = _read_scalar(p, text)
            except (KeyError, ValueError):
                raise ShapesError(f"{line.place}: {name}={text}: expected {p['type']}") from None
    return Case(case.dims, case.types, case.scalars, tuple(absent))


# ---- from the signature ----


def _bytes_of(namespace: str, name: str, dims: Dims, types: Mapping[str, str]) -> int | None:
    """None: the sizes do not fit the signature."""
    try:
        _, _, read, written = _wick.plan(namespace, name, dims, dict(types), ())
    except RuntimeError:
        return None
    return read + written


def dims_for(
    namespace: str, name: str, parameters: Mapping[str, Any], types: Mapping[str, str], wanted: int
) -> Dims | None:
    """Powers of two such that a call moves about `wanted` bytes; None where none fit. The smallest
    dim is doubled first, of several the last."""
    order = [dim for dim, _ in parameters["dims"]]
    leading = {dim for dim, is_leading in parameters["dims"] if is_leading}
    sizes = dict.fromkeys(order, 1)
    best: Dims | None = None
    for _ in range(64 * max(1, len(order))):
        dims: Dims = {dim: (n,) if dim in leading else n for dim, n in sizes.items()}
        moved = _bytes_of(namespace, name, dims, types)
        if moved is not None:
            if best is not None and moved > wanted:
                return best
            best = dims
        if not order or (moved is not None and moved >= wanted):
            return best
        smallest = min(reversed(order), key=lambda dim: sizes[dim])
        sizes[smallest] *= 2
    return best


def cases_from_signature(
    namespace: str,
    name: str,
    parameters: Mapping[str, Any],
    types: Mapping[str, str],
    sweep: Sequence[int] = SWEEP,
) -> list[Case]:
    found: list[Case] = []
    for wanted in sweep:
        dims = dims_for(namespace, name, parameters, types, wanted)
        if dims is not None and Case(dims) not in found:
            found.append(Case(dims))
    return found
