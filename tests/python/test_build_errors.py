"""What does not build or load: wick.BuildError, whose first line begins with the author's file and line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import ADD, HEAD, build_module, command, fresh, spell

import wick

Source = Callable[..., tuple[str, Path]]


def refused(path: Path, **options) -> str:
    """The message with which loading fails."""
    with pytest.raises(wick.BuildError) as e:
        wick.load(path, **options)
    assert isinstance(e.value, RuntimeError)
    return str(e.value)


def refused_at(path: Path, line: int, *words: str) -> str:
    message = refused(path)
    first = message.splitlines()[0]
    assert first.startswith(f"{path}:{line}:"), message
    for word in words:
        assert word in message, message
    return message


BODY = """
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i];
    return WICK_OK;
}
"""
COPY = 'WICK_OP(OP, "x: T[N] -> y: T[N] where T: f32 f16");' + BODY


# ---- the C compiler's errors; line 1 is the include, the text begins at line 2 ----


def test_a_syntax_error(source: Source) -> None:
    name, path = source(COPY.replace("y[i] = x[i];", "y[i] = x[i]"))
    refused_at(path, 7, "expected", "y[i] = x[i]")


DISAGREEMENTS = {
    "an argument is missing": ("const T *x, T *y, int64_t N", "const T *x, T *y"),
    "one too many": ("int64_t N", "int64_t N, int64_t M"),
    "another order": ("const T *x, T *y", "T *y, const T *x"),
    "an input that is not const": ("const T *x", "T *x"),
    "an output that is const": (" T *y", " const T *y"),
    "another type": ("int64_t N", "int N"),
    "another result": ("wick_status", "void"),
    "another name": ("OP_cpu", "OP_cuda_cpu"),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_a_function_that_disagrees_with_its_signature(source: Source, case: str) -> None:
    head, brace, body = BODY.partition("\n{")
    assert DISAGREEMENTS[case][0] in head
    body = (
        "\n{\n    (void)ctx;\n    return WICK_OK;\n}\n"
        if case != "another result"
        else "\n{\n    (void)ctx;\n}\n"
    )
    text = (
        'WICK_OP(OP, "x: T[N] -> y: T[N] where T: f32 f16");'
        + head.replace(*DISAGREEMENTS[case])
        + body
    )
    name, path = source(text)
    message = refused(path)
    assert re.match(rf"{re.escape(str(path))}:[23]:", message), message
    assert name in message


def test_a_signature_without_its_function(source: Source) -> None:
    name, path = source('WICK_OP(OP, "x: f32[N] -> y: f32[N]");\n')
    refused_at(path, 2, f"{name}_cpu")


def test_a_function_that_nobody_declared(source: Source) -> None:
    _, path = source(COPY.replace("y[i] = x[i];", "y[i] = frobnicate(x[i]);"))
    refused_at(path, 7, "frobnicate")


def test_pointers_that_do_not_fit(source: Source) -> None:
    _, path = source(COPY.replace("(void)ctx;", "(void)ctx; int *p = (char *)0; (void)p;"))
    refused_at(path, 5, "incompatible")


def test_an_int_made_a_pointer(source: Source) -> None:
    _, path = source(COPY.replace("(void)ctx;", "(void)ctx; int *p = 5; (void)p;"))
    refused_at(path, 5, "pointer")


def test_a_symbol_that_nobody_defines(source: Source) -> None:
    text = COPY.replace("= x[i];", "= x[i] + (T)frobnicate(1);").replace(" f16", "")
    _, path = source("extern int frobnicate(int);\n" + text)
    refused_at(
        path, 2, "undefined symbol frobnicate"
    )  # the linker knows no lines: where the name first appears


def test_writing_to_a_constant_input(source: Source) -> None:
    _, path = source(COPY.replace("y[i] = x[i];", "x[i] = y[i];"))
    refused_at(path, 7, "read-only")


def test_arithmetic_on_halves_is_found_when_loading_although_f32_is_built_first(
    source: Source,
) -> None:
    _, path = source(COPY.replace("y[i] = x[i];", "y[i] = x[i] + x[i];"))
    message = refused_at(path, 7)
    assert "f16" in message


def test_a_header_that_is_not_there(source: Source) -> None:
    _, path = source('#include "frobnicate.h"\n' + COPY)
    refused_at(path, 2, "frobnicate.h")


def test_the_header_of_programs_in_an_operators_file(source: Source) -> None:
    _, path = source("#include <wick/wick.h>\n" + COPY)
    refused_at(path, 2, "an operator's file includes <wick/op.h>")


def test_only_the_first_error_is_told(source: Source) -> None:
    _, path = source(COPY.replace("(void)ctx;", "(void)ctx; aaa(); bbb(); ccc();"))
    message = refused_at(path, 5, "aaa")
    assert "bbb’" not in message.replace("bbb();", "")


# ---- the signature's errors ----


def test_a_signature_that_does_not_parse_shows_where(source: Source) -> None:
    _, path = source('WICK_OP(OP, "x: T[N -> y: T[N] where T: f32");' + BODY)
    message = refused_at(path, 2, "^", "expected")
    assert "x: T[N -> y" in message


@pytest.mark.parametrize(
    "signature, words",
    [
        ("x: c64[N] -> y: f32[N]", "c64"),
        ("x: f8[N] -> y: f32[N]", "f8"),
        ("x: int[] -> y: f32[]", ""),
        ("x: f32[N] -> y: f32[M]", "M"),
        ("x: T[N] -> y: T[N]", "T"),
        ("x: f32[N], x: f32[N] -> y: f32[N]", "x"),
        ("x: f32[N], o?: f32[M] -> y: f32[M]", "M"),
        ("", "expected"),
    ],
)
def test_a_signature_that_makes_no_sense(source: Source, signature: str, words: str) -> None:
    _, path = source(f'WICK_OP(OP, "{signature}");\n')
    message = refused(path)
    assert message.startswith(f"{path}:2:"), message
    assert words in message


def test_type_lists_that_differ_in_one_file(source: Source) -> None:
    other = COPY.replace("OP", "OP_b").replace("WICK_OP_b", "WICK_OP").replace("f32 f16", "f64")
    _, path = source(COPY + other)
    message = refused(path)
    assert re.match(rf"{re.escape(str(path))}:\d+:", message) and "file" in message


def test_a_file_without_an_operator(source: Source) -> None:
    _, path = source("int answer(void);\n")
    message = refused(path)
    assert message.startswith(f"{path}:1:") and "WICK_OP" in message


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.c"
    path.write_text("")
    message = refused(path)
    assert message.startswith(f"{path}:1:") and "WICK_OP" in message


def test_an_operator_in_a_comment_is_none(source: Source) -> None:
    _, path = source('/* WICK_OP(OP, "x: f32[N] -> y: f32[N]"); */\n// WICK_OP(OP, "...");\n')
    assert "WICK_OP" in refused(path)


def test_two_operators_of_one_name_in_a_file(source: Source) -> None:
    name, path = source(COPY + 'WICK_OP(OP, "x: T[N] -> y: T[N]");\n')
    message = refused(path)
    assert message.startswith(f"{path}:10:"), message
    assert name in message


def test_two_files_that_define_one_operator(tmp_path: Path) -> None:
    name = fresh()
    one, two = tmp_path / "one.c", tmp_path / "two.c"
    one.write_text(spell(ADD, name))
    two.write_text(spell("\n" + ADD, name))
    first = wick.load(one)
    message = refused(two)
    assert message.startswith(f"{two}:3:"), message
    assert str(one) in message and name in message and "WICK_NAMESPACE" in message
    assert getattr(first, name)(torch.zeros(1)).tolist() == [1.0]


def test_a_file_is_all_or_nothing(tmp_path: Path) -> None:
    taken, free = fresh(), fresh()
    one, two = tmp_path / "one.c", tmp_path / "two.c"
    one.write_text(spell(ADD, taken))
    two.write_text(spell(ADD, free) + re.sub(r"\bOP(?=\b|_)", taken, ADD))
    wick.load(one)
    refused(two)
    assert free not in [n for _, n, _ in wick.operators()]
    with pytest.raises(AttributeError):
        getattr(torch.ops.local, free)


def test_a_cpp_source(source: Source, tmp_path: Path) -> None:
    name, path = source("#include <vector>\n" + COPY)
    assert refused(path).startswith(f"{path}:2:")
    other = tmp_path / "op.cpp"
    other.write_text(spell(COPY, name))
    message = refused(other)
    assert str(other) in message.splitlines()[0] and ".c" in message


def test_a_name_that_torch_already_has(source: Source) -> None:
    head = 'WICK_NAMESPACE(aten);\nWICK_OP(relu, "x: f32[N] -> y: f32[N]");\n'
    _, path = source(head + BODY.replace("OP_", "relu_").replace("T *", "float *"))
    message = refused(path)
    assert "aten" in message and str(path) in message.splitlines()[0]
    assert ("aten", "relu") not in [(ns, n) for ns, n, _ in wick.operators()]
    assert torch.relu(torch.tensor([-1.0])).item() == 0.0


# ---- files ----


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("nope.c", "nope.so"):
        message = refused(tmp_path / name)
        assert str(tmp_path / name) in message.splitlines()[0] and "No such file" in message


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.c").mkdir()
    (tmp_path / "folder.so").mkdir()
    for name in ("folder.c", "folder.so"):
        assert str(tmp_path / name) in refused(tmp_path / name)


def test_a_file_that_cannot_be_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.c"
    path.write_bytes(bytes(range(256)) * 10)
    assert refused(path).startswith(f"{path}:")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder, name = tmp_path_factory.mktemp("module"), fresh("aot")
    path = folder / f"{name}.c"
    path.write_text(spell(COPY, name))
    return name, build_module(folder / f"{name}.so", path)


def test_a_module_cut_short(module: tuple[str, Path], tmp_path: Path) -> None:
    whole = module[1].read_bytes()
    path = tmp_path / "cut.so"
    for n in {
        0,
        1,
        3,
        4,
        40,
        63,
        64,
        200,
        1000,
        len(whole) // 4,
        len(whole) // 2,
        len(whole) * 3 // 4,
        len(whole) - 1,
    }:
        path.write_bytes(whole[:n])
        message = refused(path)
        assert str(path) in message
        assert "truncated" in message or "not a Wick module" in message, (n, message)


def test_a_text_file_called_so(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("hello, world\n" * 100)
    assert refused(path) == f"{path}: not a Wick module (not a shared object)"


def compile_library(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    path = folder / f"{name}.so"
    include = Path(wick.__file__).parent / "include"
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-I{include}", "-o", path, folder / f"{name}.c"],
        check=True,
        timeout=60,
    )
    return path


def test_a_library_that_is_no_module(tmp_path: Path) -> None:
    path = compile_library(tmp_path, "foreign", "int answer(void) { return 42; }\n")
    message = refused(path)
    assert message.startswith(f"{path}: a shared object, but not a Wick module")


def test_a_library_that_needs_another(tmp_path: Path) -> None:
    path = compile_library(
        tmp_path, "needy", "extern int nowhere(void); int f(void) { return nowhere(); }\n"
    )
    message = refused(path)
    assert str(path) in message and "nowhere" in message


def test_a_library_for_another_machine(module: tuple[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "other.so"
    data = bytearray(module[1].read_bytes())
    data[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
    path.write_bytes(data)
    assert refused(path) == f"{path}: a shared object for another kind of machine"


def test_a_module_of_another_abi(tmp_path: Path) -> None:
    text = """#include <wick/glue.h>
WICK_API const wick_module_table wick_module;
const wick_module_table wick_module = {.magic = WICK_MODULE_MAGIC, .abi = WICK_ABI + 1, .n_ops = 1000000};
"""
    path = compile_library(tmp_path, "future", text)
    message = refused(path)
    assert (
        message.startswith(f"{path}: built for Wick's ABI 3, this is ABI 2")
        and "rebuild" in message
    )


# ---- warnings ----


def test_warnings_are_shown_and_not_fatal(source: Source) -> None:
    name, path = source(COPY.replace("(void)ctx;", "(void)ctx; int unused_one;"))
    with pytest.warns(
        wick.BuildWarning, match=rf"(?s){re.escape(str(path))}:5:.*unused_one"
    ) as seen:
        loaded = wick.load(path)
    assert seen[0].filename == __file__
    assert getattr(loaded, name)(torch.ones(2)).tolist() == [1.0, 1.0]


def test_a_warning_of_every_type_is_told_once(source: Source) -> None:
    """Beside one that has other words for each type."""
    odd = '(void)ctx; int unused_one; __builtin_printf("%d", x[0]);'
    _, path = source(COPY.replace("(void)ctx;", odd))
    words = [command(), "build", path, "-o", path.with_suffix(".so")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.count("unused variable") == 1, done.stderr
    assert done.stderr.count("warning: ") > 2, done.stderr


def test_warnings_of_types_built_later_do_not_disturb_a_call(source: Source, recwarn) -> None:
    name, path = source(COPY.replace("(void)ctx;", "(void)ctx; int unused_one;"))
    with pytest.warns(wick.BuildWarning):
        loaded = wick.load(path)
    recwarn.clear()
    assert getattr(loaded, name)(torch.ones(2).half()).tolist() == [1.0, 1.0]
    assert not recwarn.list


def test_the_head_is_line_one() -> None:
    assert HEAD.count("\n") == 1  # what every line number above counts on
