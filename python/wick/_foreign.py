"""Existing C code as operators: the few lines of C between a plain function and a signature.

A function is called with the C parameters that its signature implies, without the context: inputs in order, outputs,
then dims. A signature with one number as its result takes it from the function's return value.

    void saxpy(int n, float a, const float *x, float *y)      "n: int, a: float, x: f32[n], y!: f32[n] -> ()"
    int addone(int x)                                          "x: int -> y: int"
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from . import _wick

# Integer types narrower than the 64 bits of a signature's int, with the range that fits.
_NARROW = {
    "int": "INT32",
    "signed": "INT32",
    "signed int": "INT32",
    "int32_t": "INT32",
    "unsigned": "UINT32",
    "unsigned int": "UINT32",
    "uint32_t": "UINT32",
    "short": "INT16",
    "int16_t": "INT16",
    "uint16_t": "UINT16",
}


def adapt_source(text: str, name: str, signature: Mapping[str, str | tuple[str, str]]) -> str:
    """The source with an adapter behind it for every function that has a signature."""
    line = name.replace("\\", "\\\\").replace('"', '\\"')
    head = f'#include <wick/op.h>\n#line 1 "{line}"\n'
    return head + text + "\n" + _adapters(name, signature, text)


def adapt_library(
    path: str, signature: Mapping[str, str | tuple[str, str]]
) -> tuple[str, list[str]]:
    """A source that calls a shared library's functions, and the flags that link it."""
    if not os.path.exists(path):
        raise _wick.BuildError(f"{path}:1: there is no such library")
    declared = "".join(
        f"extern {_declaration(name, path, value)};\n" for name, value in signature.items()
    )
    text = "#include <wick/op.h>\n" + declared + _adapters(path, signature, declared)
    return text, [path, "-Xlinker", "-rpath", "-Xlinker", os.path.dirname(path)]


def _split(value: str | tuple[str, str]) -> tuple[str, str | None]:
    return (value, None) if isinstance(value, str) else (value[0], value[1])


def _implied(name: str, where: str, signature: str) -> list[str]:
    """The C parameters of the signature, with their names, after the context."""
    try:
        prototype = _wick.prototype(name, signature)
    except _wick.BuildError as error:
        raise _wick.BuildError(f"{where}:1: signature of {name}: {error}") from None
    inside = prototype[prototype.index("(") + 1 : prototype.rindex(")")]
    return inside.split(", ")[1:]


def _name_of(parameter: str) -> str:
    return re.search(r"(\w+)$", parameter).group(1)  # type: ignore[union-attr]


def _number_result(signature: str) -> tuple[str, str] | None:
    """The name and the C type of the one result, where it is a number."""
    match = re.fullmatch(r"\s*(\w+)\s*:\s*(int|float|bool)\s*", signature.split("->", 1)[-1])
    types = {"int": "int64_t", "float": "double", "bool": "bool"}
    return (match.group(1), types[match.group(2)]) if match else None


def _passed(parameters: list[str], result: tuple[str, str] | None) -> list[str]:
    """What the function is given: a number that it returns has no parameter."""
    return [p for p in parameters if result is None or _name_of(p) != result[0]]


def _declaration(name: str, where: str, value: str | tuple[str, str]) -> str:
    signature, prototype = _split(value)
    if prototype is not None:
        return prototype.rstrip("; \n")
    parameters = _implied(name, where, signature)
    result = _number_result(signature)
    kind = result[1] if result else "void"
    return f"{kind} {name}({', '.join(_passed(parameters, result)) or 'void'})"


def _narrow_checks(name: str, parameters: list[str], declared: str) -> str:
    """Refuses numbers that the function's own parameters cannot hold, where its declaration shows their types."""
    match = re.search(rf"\b{name}\s*\(([^()]*)\)", declared)
    theirs = [p.strip() for p in match.group(1).split(",")] if match else []
    checks = ""
    for ours, their in zip(parameters, theirs):
        kind = re.sub(r"\s*\b\w+$", "", re.sub(r"\bconst\b", "", their)).strip() or their
        limit = _NARROW.get(kind)
        if not ours.startswith("int64_t ") or limit is None:
            continue
        n = _name_of(ours)
        low = "0" if limit.startswith("U") else f"{limit}_MIN"
        checks += (
            f"    if ({n} < {low} || {n} > (int64_t){limit}_MAX) return wick_fail(ctx, WICK_EINVAL, "
            f'"{n} is %lld, which the C function\'s {kind} cannot hold", (long long){n});\n'
        )
    return checks


def _adapters(where: str, signature: Mapping[str, str | tuple[str, str]], declared: str) -> str:
    out = ""
    for name, value in signature.items():
        text, prototype = _split(value)
        parameters = _implied(name, where, text)
        result = _number_result(text)
        passed = _passed(parameters, result)
        call = f"{name}({', '.join(_name_of(p) for p in passed)})"
        if result:
            call = f"*{result[0]} = {call}"
        literal = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        checks = _narrow_checks(name, passed, prototype or declared)
        out += (
            f'WICK_OP({name}, "{literal}");\n'
            f"WICK_IMPL wick_status {name}_cpu({', '.join(['wick_ctx *ctx', *parameters])})\n"
            f"{{\n    (void)ctx;\n{checks}    {call};\n    return WICK_OK;\n}}\n"
        )
    return out
