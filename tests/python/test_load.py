"""wick.load: files, texts and modules become operators that say what they are."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import ADD, HEAD, Made, build_module, fresh, spell

import wick
from wick import _calls

Maker = Callable[..., Made]
Source = Callable[..., tuple[str, Path]]


def test_a_path_of_any_kind(source: Source) -> None:
    name, path = source(ADD)
    for given in (path, str(path)):
        assert getattr(wick.load(given), name)(torch.zeros(1)).item() == 1.0


def test_a_relative_path_is_the_same_file(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    name, path = source(ADD)
    wick.load(path)
    monkeypatch.chdir(path.parent)
    assert getattr(wick.load(path.name), name)(torch.zeros(1)).item() == 1.0
    assert (
        getattr(wick.load(f"../{path.parent.name}/{path.name}"), name)(torch.zeros(1)).item() == 1.0
    )


def test_a_link_to_the_file_is_the_same_file(source: Source, tmp_path: Path) -> None:
    name, path = source(ADD)
    wick.load(path)
    link = tmp_path / "link.c"
    link.symlink_to(path)
    assert getattr(wick.load(link), name)(torch.zeros(1)).item() == 1.0


def test_paths_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a 'folder' with \"quotes\" $HOME ; & ünïcode\\"
    folder.mkdir()
    name = fresh()
    (folder / "helper.h").write_text("#define STEP 5\n")
    path = folder / "my op%s.c"
    path.write_text('#include "helper.h"\n' + spell(ADD, name).replace("(A)by)", "(A)by + STEP)"))
    assert getattr(wick.load(path), name)(torch.zeros(1)).item() == 6.0
    path.write_text(spell("nonsense\n" + ADD, name))
    with pytest.raises(wick.BuildError) as e:
        wick.load(path)
    assert str(e.value).startswith(f"{path}:2:")


def test_text_instead_of_a_file() -> None:
    name = fresh()
    op = wick.load(source=spell(ADD, name), name="cell 7")
    assert op.names == [name] and op.origin == "cell 7"
    assert getattr(op, name)(torch.zeros(1)).item() == 1.0
    with pytest.raises(wick.BuildError) as e:
        wick.load(source=spell("nonsense\n" + ADD, name), name="cell 7")
    assert str(e.value).startswith("cell 7:2:")


def test_text_without_a_name() -> None:
    name = fresh()
    assert getattr(wick.load(source=spell(ADD, name)), name)(torch.zeros(1)).item() == 1.0


def test_flags_reach_the_compiler(source: Source) -> None:
    name, path = source(ADD.replace("(A)by", "(A)by * SEVEN"))
    with pytest.raises(wick.BuildError, match="SEVEN"):
        wick.load(path)
    assert getattr(wick.load(path, flags=["-DSEVEN=7"]), name)(torch.zeros(1)).item() == 7.0
    assert getattr(wick.load(path, flags=["-DSEVEN=7"]), name)(torch.zeros(1).half()).item() == 7.0


def test_a_flag_that_the_compiler_does_not_know(source: Source) -> None:
    _, path = source(ADD)
    with pytest.raises(wick.BuildError, match="--frobnicate"):
        wick.load(path, flags=["--frobnicate"])


@pytest.mark.parametrize(
    "args, keywords",
    [
        ((), {}),
        (("a.c",), {"source": "text"}),
        (("a.c",), {"flags": "-O2"}),
        (("a.c",), {"flags": [1]}),
        ((3,), {}),
    ],
)
def test_arguments_of_load_that_make_no_sense(args, keywords) -> None:
    with pytest.raises(TypeError):
        wick.load(*args, **keywords)


def test_what_a_loaded_object_shows(source: Source) -> None:
    other = fresh()
    name, path = source(ADD + re.sub(r"\bOP(?=\b|_)", other, ADD))
    loaded = wick.load(path)
    assert loaded.names == [name, other]
    assert repr(loaded) == f"<wick operators of {path}: {name}, {other}>"
    assert {name, other} <= set(dir(loaded))


def test_the_list_of_operators(make: Maker) -> None:
    op = make(ADD)
    signatures = {(ns, name): signature for ns, name, signature in wick.operators()}
    assert signatures["local", op.name].startswith("x: T[*N], by: float = 1.0 -> y: T[*N]")
    assert ("wick", "relu") in signatures
    assert op.name in dir(wick.ops.local) and "relu" in dir(wick.ops) and "local" in dir(wick.ops)
    assert op.name in repr(wick.ops.local)


def test_what_an_operator_knows_of_itself(source: Source) -> None:
    name, path = fresh(), None
    text = f"/* {name} -- adds a number\n * Nothing else. */\n" + spell(ADD, name)
    path = source("")[1].with_name(f"{name}.c")
    path.write_text(text)
    function = getattr(wick.load(path), name)
    assert type(function) is type(len), "a builtin function"
    assert function.__name__ == name
    assert str(inspect.signature(function)) == "(x, by=1.0, *, out=None)"
    assert f"{name}(x: T[*N], by: float = 1.0) -> y: T[*N]" in function.__doc__
    assert "adds a number" in function.__doc__
    about = function.__self__
    assert (about.name, about.namespace) == (name, "local")
    assert about.schema == f"{name}(Tensor x, float by=1.0) -> Tensor" or about.schema.startswith(
        name
    )
    assert f"{name}_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)" in about.prototype
    assert "def " + name in about.stub
    assert about.file == str(path)
    assert repr(about) == f"<wick operator local::{name}>"


def test_the_schema_that_torch_has(make: Maker) -> None:
    op = make(
        """
WICK_OP(OP, "x!: T[*N, C], o?: f32[C], s: shape[C], k: int = 3, f: float = 0.5, b: bool = true,"
            " mode: 'sum'|'mean' = 'mean', text: str = 'a' -> y: T[C], z?: f32[], n: int where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, T *x, const float *o, int64_t k, double f, bool b, int mode,
                             const char *text, T *y, float *z, int64_t *n, int64_t N, int64_t C)
{
    (void)ctx, (void)x, (void)o, (void)k, (void)f, (void)b, (void)mode, (void)text, (void)N;
    memset(y, 0, (size_t)C * sizeof *y);
    if (z) *z = 1;
    *n = k;
    return WICK_OK;
}
"""
    )
    schema = op.torch.default._schema
    kinds = {a.name: str(a.type) for a in schema.arguments}
    assert kinds["o"] == "Optional[Tensor]" and kinds["s"] == "List[int]" and kinds["k"] == "int"
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    assert defaults == {"k": 3, "f": 0.5, "b": True, "mode": "mean", "text": "a", "want_z": True}
    assert [a.name for a in schema.arguments if a.kwarg_only] == ["want_z"]
    assert [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write] == ["x"]
    assert [str(r.type) for r in schema.returns] == ["Tensor", "Optional[Tensor]", "int"]
    assert "SymInt k=3" in str(schema) and "SymInt[] s" in str(schema)


def test_a_namespace_of_ones_own(make: Maker) -> None:
    op = make("WICK_NAMESPACE(acme);\n" + ADD, namespace="acme")
    for door in ("direct", "wick", "torch"):
        assert op.by(door)(torch.zeros(1)).item() == 1.0
    assert op.direct.__self__.namespace == "acme"
    assert op.name in dir(wick.ops.acme)
    with pytest.raises(AttributeError):
        getattr(torch.ops.local, op.name)
    with pytest.raises(
        AttributeError, match=f"no operator {op.name}_ in namespace acme; did you mean {op.name}"
    ):
        getattr(wick.ops.acme, op.name + "_")


def test_one_name_in_two_namespaces(tmp_path: Path) -> None:
    name = fresh()
    for ns, value in (("acme", 1), ("apex", 2)):
        path = tmp_path / f"{ns}.c"
        path.write_text(
            HEAD
            + f"WICK_NAMESPACE({ns});\n"
            + spell(ADD, name).replace("(A)by", f"(A)by * {value}")
        )
        wick.load(path)
    x = torch.zeros(1)
    assert (
        getattr(torch.ops.acme, name)(x).item() == 1.0
        and getattr(torch.ops.apex, name)(x).item() == 2.0
    )
    assert (
        getattr(wick.ops.acme, name)(x).item() == 1.0
        and getattr(wick.ops.apex, name)(x).item() == 2.0
    )


def test_a_shipped_name_may_be_used_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "relu.c"
    path.write_text(spell(ADD, "relu"))
    x = torch.tensor([-1.0])
    assert wick.load(path).relu(x).item() == 0.0
    assert torch.ops.local.relu(x + 2).item() == 2.0 and wick.ops.relu(x + 2).item() == 1.0


# ---- modules ----


@pytest.fixture
def module(source: Source, tmp_path: Path) -> tuple[str, Path]:
    name, path = source(ADD)
    return name, build_module(tmp_path / "module.so", path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_module_holds_every_type_of_the_list(
    module: tuple[str, Path], door: str, dtype: torch.dtype
) -> None:
    name, path = module
    op = Made(name, path, wick.load(path))
    assert op.by(door)(torch.zeros(3, dtype=dtype)).tolist() == [1.0] * 3


def test_a_module_needs_neither_compiler_nor_source(module: tuple[str, Path], monkeypatch) -> None:
    name, path = module
    path.with_name(f"{name}.c").unlink()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "/nonexistent")
    assert getattr(wick.load(path), name)(torch.zeros(1, dtype=torch.bfloat16)).item() == 1.0


def test_a_module_and_its_source_are_one_owner(module: tuple[str, Path]) -> None:
    name, path = module
    assert getattr(wick.load(path.with_name(f"{name}.c")), name)(torch.zeros(1)).item() == 1.0
    assert getattr(wick.load(path), name)(torch.zeros(1)).item() == 1.0


def test_a_module_of_several_files(source: Source, tmp_path: Path) -> None:
    (one, a), (two, b) = source(ADD), source("WICK_NAMESPACE(acme);\n" + ADD)
    loaded = wick.load(build_module(tmp_path / "both.so", a, b))
    assert sorted(loaded.names) == sorted([one, two])
    x = torch.zeros(1)
    assert (
        getattr(torch.ops.local, one)(x).item() == 1.0
        and getattr(torch.ops.acme, two)(x).item() == 1.0
    )


def test_a_copied_module_after_the_source_is_gone(module: tuple[str, Path], tmp_path: Path) -> None:
    name, path = module
    other = tmp_path / "elsewhere"
    other.mkdir()
    shutil.copy(path, other / "copy.so")
    os.remove(path.with_name(f"{name}.c"))
    assert getattr(wick.load(other / "copy.so"), name)(torch.zeros(1)).item() == 1.0


def test_nothing_is_left_in_the_temporary_folder(
    source: Source, tmp_path: Path, monkeypatch
) -> None:
    empty = tmp_path / "tmp"
    empty.mkdir()
    monkeypatch.setenv("TMPDIR", str(empty))
    name, path = source(ADD)
    getattr(wick.load(path), name)(torch.zeros(1).half())
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(wick.BuildError):
        wick.load(path)
    assert list(empty.iterdir()) == []


def test_ctrl_c_while_it_builds_is_heard(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives while C waits for the compiler is raised by the first Python code that runs: ours, which
    C tells that the build is done."""
    _, path = source(ADD)
    told = []

    def tell(event: str, file: str, detail: str) -> None:
        told.append(event)
        if event == "finished":
            raise KeyboardInterrupt

    monkeypatch.setattr(_calls, "tell", tell)
    # As in a program that a person has started: one in a shell's background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            wick.load(path)
            time.sleep(0)  # the next thing that Python does
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == ["started", "finished"]


def test_the_preprocessor_knows_types_by_name(source: Source) -> None:
    """To it an enumerator is 0, and `#if WICK_T == WICK_F64` would hold for no type, without a word."""
    text = """\
WICK_OP(OP, "x: T[*N] -> y: i32[*N] where T: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool");
#if WICK_T == WICK_F16
enum { MINE = 16 };
#elif WICK_T == WICK_BF16
enum { MINE = 17 };
#elif WICK_T == WICK_F32
enum { MINE = 32 };
#elif WICK_T == WICK_F64
enum { MINE = 64 };
#elif WICK_T == WICK_I8 || WICK_T == WICK_I16 || WICK_T == WICK_I32 || WICK_T == WICK_I64
enum { MINE = 8 * sizeof(T) + 1 };
#elif WICK_T == WICK_U8 || WICK_T == WICK_BOOL
enum { MINE = 8 };
#endif
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, int32_t *y, int64_t N)
{
    (void)ctx, (void)x;
    for (int64_t i = 0; i < N; i++)
        y[i] = MINE;
    return WICK_OK;
}
"""
    name, path = source(text)
    op = getattr(wick.load(path), name)
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    whole = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
    found = [op(torch.zeros(1, dtype=t)).item() for t in (*floats, *whole)]
    assert found == [16, 17, 32, 64, 9, 17, 33, 65, 8, 8]
