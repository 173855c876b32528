"""Existing C code as operators: plain functions in a source or a shared library, with a signature from Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from cached import CC, Room
from support import fresh

import wick

LEGACY = """\
#include <math.h>

void NAME_saxpy(int n, float a, const float *x, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

double NAME_mean(const double *x, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

int NAME_next(int x) { return x + 1; }

void NAME_transpose(const float *x, float *y, int rows, int columns)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            y[c * rows + r] = x[r * columns + c];
}
"""


@pytest.fixture
def legacy(tmp_path: Path) -> tuple[str, Path]:
    name = fresh("legacy")
    path = tmp_path / f"{name}.c"
    path.write_text(LEGACY.replace("NAME", name))
    return name, path


def library_of(path: Path) -> Path:
    library = path.with_name(f"lib{path.stem}.so")
    subprocess.run([CC, "-shared", "-fPIC", "-o", library, path, "-lm"], check=True)
    return library


def signatures(name: str) -> dict[str, str]:
    return {
        f"{name}_saxpy": "n: int, a: float, x: f32[n], y!: f32[n] -> ()",
        f"{name}_next": "x: int -> y: int",
        f"{name}_transpose": "x: f32[R, C] -> y: f32[C, R]",
    }


def check(name: str, loaded: wick.Loaded) -> None:
    for doors in (loaded, torch.ops.local):
        y = torch.ones(3)
        getattr(doors, f"{name}_saxpy")(3, 2.0, torch.arange(3.0), y)
        assert y.tolist() == [1.0, 3.0, 5.0]
        assert getattr(doors, f"{name}_next")(41) == 42
        x = torch.arange(6.0).reshape(2, 3)
        assert torch.equal(getattr(doors, f"{name}_transpose")(x), x.T)
        with pytest.raises(RuntimeError, match="x"):
            getattr(doors, f"{name}_transpose")(x[0])


def test_functions_of_a_source(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    loaded = wick.load(path, signature=signatures(name))
    assert loaded.names == list(signatures(name))
    check(name, loaded)
    before = path.read_text()
    assert wick.load(path, signature=signatures(name)) is loaded and path.read_text() == before


def test_functions_of_a_shared_library(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    prototypes = {
        f"{name}_saxpy": f"void {name}_saxpy(int n, float a, const float *x, float *y)",
        f"{name}_next": f"int {name}_next(int x)",
        f"{name}_transpose": f"void {name}_transpose(const float *x, float *y, int r, int c)",
    }
    library = library_of(path)
    path.unlink()
    check(
        name,
        wick.load(library, signature={n: (s, prototypes[n]) for n, s in signatures(name).items()}),
    )


def test_a_library_whose_function_takes_what_the_signature_implies(tmp_path: Path) -> None:
    name = fresh("wide")
    path = tmp_path / f"{name}.c"
    path.write_text(
        f"#include <stdint.h>\nvoid {name}(const float *x, double by, float *y, int64_t N)\n"
        "{ for (int64_t i = 0; i < N; i++) y[i] = x[i] * (float)by; }\n"
    )
    signature = {name: "x: f32[*N], by: float -> y: f32[*N]"}
    loaded = wick.load(library_of(path), signature=signature)
    assert getattr(loaded, name)(torch.ones(2, 2), 3.0).tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_number_that_the_function_gives_back(tmp_path: Path) -> None:
    name = fresh("mean")
    path = tmp_path / f"{name}.c"
    path.write_text(LEGACY.replace("NAME", name))
    loaded = wick.load(path, signature={f"{name}_mean": "x: f64[N] -> m: float"})
    assert (
        getattr(loaded, f"{name}_mean")(torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)) == 3.0
    )


def test_numbers_too_large_for_the_function_are_refused(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    loaded = wick.load(path, signature={f"{name}_next": "x: int -> y: int"})
    f = getattr(loaded, f"{name}_next")
    assert f(-(2**31)) == -(2**31) + 1
    for value in (2**31, -(2**31) - 1, 2**40):
        with pytest.raises(
            RuntimeError, match=f"x is {value}, which the C function's int cannot hold"
        ):
            f(value)


def test_an_edited_source_is_built_again(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    signature = {f"{name}_next": "x: int -> y: int"}
    assert getattr(wick.load(path, signature=signature), f"{name}_next")(1) == 2
    path.write_text(path.read_text().replace("x + 1", "x + 5"))
    assert getattr(wick.load(path, signature=signature), f"{name}_next")(1) == 6


def test_errors_are_at_the_lines_of_the_file(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    path.write_text(path.read_text().replace("return x + 1;", "return x + nonsense;"))
    with pytest.raises(wick.BuildError) as e:
        wick.load(path, signature=signatures(name))
    assert str(e.value).startswith(f"{path}:17:") and "nonsense" in str(e.value)


def test_signatures_that_are_wrong(legacy: tuple[str, Path]) -> None:
    name, path = legacy
    with pytest.raises(wick.BuildError, match=rf"^{path}:\d+:.*signature of {name}_next"):
        wick.load(path, signature={f"{name}_next": "x: integer -> y: int"})
    with pytest.raises(wick.BuildError, match=f"{name}_absent"):
        wick.load(path, signature={f"{name}_absent": "x: int -> y: int"})
    with pytest.raises(wick.BuildError, match=rf"^{path}:"):
        wick.load(path, signature={f"{name}_next": "x: f32[N] -> y: f32[N]"})


def test_libraries_that_are_wrong(legacy: tuple[str, Path], tmp_path: Path) -> None:
    name, path = legacy
    with pytest.raises(wick.BuildError, match="there is no such library"):
        wick.load(tmp_path / "libnowhere.so", signature={"f": "x: int -> y: int"})
    with pytest.raises(wick.BuildError, match=f"{name}_absent"):
        wick.load(library_of(path), signature={f"{name}_absent": "x: int -> y: int"})
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(wick.BuildError, match="text.so"):
        wick.load(tmp_path / "text.so", signature={"f": "x: int -> y: int"})


def test_a_text_with_a_signature() -> None:
    name = fresh("text")
    text = f"int {name}(int x) {{ return 2 * x; }}\n"
    loaded = wick.load(source=text, signature={name: "x: int -> y: int"})
    assert getattr(loaded, name)(21) == 42
    loaded = wick.load(source=text.replace("2 * x", "3 * x"), signature={name: "x: int -> y: int"})
    assert getattr(loaded, name)(21) == 63


def test_a_source_with_a_header_and_static_helpers(tmp_path: Path) -> None:
    name = fresh("own")
    (tmp_path / "own.h").write_text(f"float {name}(const float *x, int n);\n")
    path = tmp_path / f"{name}.c"
    path.write_text(
        '#include "own.h"\nstatic int T = 3; /* a name that operator files give to a type */\n'
        f"float {name}(const float *x, int n) {{ float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s * T; }}\n"
    )
    loaded = wick.load(path, signature={name: "x: f32[N] -> s: float"})
    assert getattr(loaded, name)(torch.ones(4)) == 12.0


def test_the_cache_serves_these_too(room: Room) -> None:
    path = room.folder / "legacy.c"
    path.write_text(LEGACY.replace("NAME", "old"))
    library = library_of(path)
    code = "print(wick.load(args[0], signature={'old_next': ('x: int -> y: int', 'int old_next(int x)')}).old_next(1))"
    for given in (path, library):
        for _ in range(2):
            assert room.run(code, given).out == "2\n"
    assert room.compiler.runs == 2


def test_a_library_in_a_folder_with_an_odd_name(room: Room) -> None:
    folder = room.folder / "a, b 'c' (d)"
    folder.mkdir()
    path = folder / "legacy.c"
    path.write_text(LEGACY.replace("NAME", "old"))
    code = "print(wick.load(args[0], signature={'old_next': ('x: int -> y: int', 'int old_next(int x)')}).old_next(1))"
    assert room.run(code, library_of(path)).out == "2\n"
