"""The keywords of wick.load, those of torch.utils.cpp_extension.load among them, and texts from notebook cells."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cached import CC, Room, one_type
from support import ADD, fresh, spell

import wick

X = torch.zeros(2)


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a module, forgotten again."""
    name = fresh("module")
    yield name
    sys.modules.pop(name, None)


def add(folder: Path, factor: int = 1, operator: str | None = None) -> tuple[str, Path]:
    operator = operator or fresh()
    return operator, one_type(folder, operator, factor)


# ---- names ----


def test_a_name_makes_it_importable(tmp_path: Path, name: str) -> None:
    operator, path = add(tmp_path)
    loaded = wick.load(path, name=name)
    assert importlib.import_module(name) is loaded and loaded.__name__ == name
    names: dict[str, object] = {}
    exec(f"from {name} import {operator} as f", names)
    assert names["f"](X).tolist() == [1.0, 1.0]


def test_the_way_of_cpp_extension(tmp_path: Path, name: str) -> None:
    (a, first), (b, second) = add(tmp_path, 1), add(tmp_path, 2)
    loaded = wick.load(name, [str(first), str(second)])
    assert sys.modules[name] is loaded and loaded.names == [a, b]
    assert (
        getattr(loaded, a)(X).tolist() == [1.0] * 2 and getattr(loaded, b)(X).tolist() == [2.0] * 2
    )
    again = wick.load(name=name, sources=[first, second])
    assert sys.modules[name] is again and again.names == [a, b]
    assert getattr(wick.load(name, str(first)), a)(X).tolist() == [1.0] * 2, (
        "one file, not in a list"
    )


def test_a_name_follows_the_last_load(tmp_path: Path, name: str) -> None:
    (a, first), (b, second) = add(tmp_path, 1), add(tmp_path, 2)
    for operator, path in ((a, first), (b, second), (a, first)):
        wick.load(path, name=name)
        assert importlib.import_module(name).names == [operator]
    _, changed = add(tmp_path, 5, a)
    wick.load(changed, name=name)
    assert getattr(importlib.import_module(name), a)(X).tolist() == [5.0] * 2


def test_a_name_that_is_taken_is_refused_every_time(tmp_path: Path) -> None:
    _, path = add(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="'json'.*already imported"):
            import json

            wick.load(path, name="json")
        assert sys.modules["json"] is json


def test_a_name_that_is_no_identifier_is_only_a_name(tmp_path: Path) -> None:
    _, path = add(tmp_path)
    assert wick.load(path, name="not one-word").__name__ == "not one-word"
    assert "not one-word" not in sys.modules


def test_a_load_that_fails_leaves_no_module(tmp_path: Path, name: str) -> None:
    _, path = add(tmp_path, "nonsense")
    with pytest.raises(wick.BuildError):
        wick.load(path, name=name)
    assert name not in sys.modules


def test_loading_again_gives_the_same_object(tmp_path: Path) -> None:
    operator, path = add(tmp_path)
    loaded = wick.load(path)
    assert wick.load(path) is loaded and wick.load(str(path)) is loaded
    add(tmp_path, 2, operator)
    assert wick.load(path) is not loaded


# ---- flags ----


def test_extra_cflags_and_include_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = tmp_path / "my include"
    include.mkdir()
    (include / "value.h").write_text("#define VALUE (SEVEN * 2)\n")
    operator, path = add(tmp_path, "VALUE")
    path.write_text("#include <value.h>\n" + path.read_text())
    for folder in (include, str(include), "my include"):
        monkeypatch.chdir(tmp_path)
        loaded = wick.load(path, extra_cflags=["-DSEVEN=7"], extra_include_paths=[folder])
        assert getattr(loaded, operator)(X).tolist() == [14.0] * 2
    loaded = wick.load(
        path,
        flags=["-DSEVEN=1"],
        extra_cflags=["-USEVEN", "-DSEVEN=8"],
        extra_include_paths=[include],
    )
    assert getattr(loaded, operator)(X).tolist() == [16.0] * 2, "extra_cflags come after flags"


def test_extra_ldflags(tmp_path: Path) -> None:
    (tmp_path / "helper.c").write_text("float helper(void) { return 3; }\n")
    library = tmp_path / "libhelper.so"
    subprocess.run([CC, "-shared", "-fPIC", "-o", library, tmp_path / "helper.c"], check=True)
    operator, path = add(tmp_path, "helper()")
    path.write_text("float helper(void);\n" + path.read_text())
    with pytest.raises(wick.BuildError, match="undefined symbol helper"):
        wick.load(path)
    with pytest.raises(wick.BuildError, match="a library is missing"):
        wick.load(path, extra_ldflags=["-lhelper"])
    flags = [f"-L{tmp_path}", "-lhelper", f"-Wl,-rpath,{tmp_path}"]
    assert getattr(wick.load(path, extra_ldflags=flags), operator)(X).tolist() == [3.0] * 2


@pytest.mark.parametrize("keyword", ["flags", "extra_cflags", "extra_ldflags"])
def test_flags_are_lists(tmp_path: Path, keyword: str) -> None:
    _, path = add(tmp_path)
    with pytest.raises(TypeError, match=f"{keyword} is a str, expected a sequence such as"):
        wick.load(path, **{keyword: "-O2 -g"})


def test_keywords_that_make_no_sense(tmp_path: Path) -> None:
    _, path = add(tmp_path)
    with pytest.raises(TypeError, match="sources is empty"):
        wick.load(name="x", sources=[])
    with pytest.raises(TypeError, match="expected 'all'"):
        wick.load(path, types="f32")
    with pytest.raises(TypeError, match="one of the three"):
        wick.load(name="x")
    with pytest.raises(TypeError, match="is_python_module"):
        wick.load(path, is_python_module=True)


def test_flags_for_cuda_are_taken(tmp_path: Path) -> None:
    """A program that passes them still runs, also where no kernel is compiled (test_cuda_build.py)."""
    operator, path = add(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = wick.load(path, extra_cuda_cflags=["-O3"], with_cuda=None)
        assert wick.load(path, with_cuda=False)
    assert getattr(loaded, operator)(X).tolist() == [1.0] * 2
    with pytest.raises(TypeError, match="extra_cuda_cflags is a str"):
        wick.load(path, extra_cuda_cflags="-O3")


# ---- several files ----


def test_one_of_several_files_does_not_build(tmp_path: Path, name: str) -> None:
    (_, good), (_, bad) = add(tmp_path), add(tmp_path, "nonsense")
    with pytest.raises(wick.BuildError) as e:
        wick.load(name, [good, bad])
    assert str(e.value).startswith(f"{bad}:7:") and name not in sys.modules


@pytest.mark.parametrize("ending", ["cpp", "cc", "cxx", "C"])
def test_a_cpp_source_is_pointed_to_the_porting_page(
    tmp_path: Path, ending: str, name: str
) -> None:
    path = tmp_path / f"extension.{ending}"
    path.write_text("#include <torch/extension.h>\nat::Tensor f(at::Tensor x) { return x + 1; }\n")
    with pytest.raises(wick.BuildError, match="C\\+\\+") as e:
        wick.load(name, [str(path)])
    assert str(e.value).startswith(f"{path}:1:") and "porting" in str(e.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(wick.BuildError, match="nowhere.c") as e:
        wick.load(tmp_path / "nowhere.c")
    assert "No such file" in str(e.value)


# ---- texts ----


def test_lines_are_counted_in_the_cell() -> None:
    operator = fresh()
    text = spell(ADD, operator)
    lines = text.splitlines()
    for number in (5, len(lines) - 1):
        broken = [*lines]
        broken[number - 1] += " nonsense here"
        with pytest.raises(wick.BuildError) as e:
            wick.load(source="\n".join(broken), name="cell 3")
        first, shown = str(e.value).split("\n")[:2]
        assert first.startswith((f"cell 3:{number}:", f"cell 3:{number + 1}:")), first
        assert "nonsense here" in shown or "nonsense here" in str(e.value)


def test_a_cell_that_begins_with_an_empty_line() -> None:
    """source=\"\"\" and then a line break: line 1 is empty."""
    operator = fresh()
    text = "\n\n" + spell(ADD.replace("return WICK_OK;", "return oops;"), operator)
    line = text.splitlines().index("    return oops;") + 1
    with pytest.raises(wick.BuildError, match=rf"^<source[ 0-9]*>:{line}:.*oops"):
        wick.load(source=text)


def test_a_cell_that_knows_a_header_from_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "value.h").write_text("#define VALUE 4\n")
    operator, path = add(tmp_path, "VALUE")
    loaded = wick.load(source='#include "value.h"\n' + path.read_text(), name=f"cell {operator}")
    assert getattr(loaded, operator)(X).tolist() == [4.0] * 2


def test_verbose_says_what_is_built(room: Room) -> None:
    code = "wick.load(args[0], verbose=True); print('ok')"
    path = one_type(room.folder)
    done = room.run(code, path)
    assert "wick: building op.c" in done.err and "wick: built op.c in " in done.err
    assert "building" not in room.run(code, path).err, "it was found"


def test_verbose_in_one_thread_is_not_verbose_in_another(room: Room) -> None:
    paths = [one_type(room.folder, name) for name in ("loud", "quiet", "later")]
    room.compiler.write("sleep 0.3")
    code = """
import threading
a = threading.Thread(target=wick.load, args=args[:1], kwargs={"verbose": True})
b = threading.Thread(target=wick.load, args=args[1:2])
a.start(); time.sleep(0.1); b.start(); a.join(); b.join()
wick.load(args[2])
"""
    said = room.run(code, *paths).err
    assert "building loud.c" in said and "quiet.c" not in said and "later.c" not in said
