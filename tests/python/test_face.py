"""What Python, editors and type checkers see of an operator: documentation, signature, identity, pickles, stubs."""

from __future__ import annotations

import ast
import copy
import inspect
import io
import pickle
import pydoc
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ADD, Made, build_module, command, fresh, run_python, spell, write
from test_pairs import PAIR

import wick

Maker = Callable[..., Made]
Source = Callable[..., tuple[str, Path]]
SHIPPED = sorted(name for ns, name, _ in wick.operators() if ns == "wick")

EVERYTHING = """
WICK_OP(OP, "x: T[*N, C], o?: f32[C], s: shape[C], k: int = -3, f: float = 0.5, b: bool = true,"
            " mode: 'sum'|'mean' = 'mean', text: str = 'a b' -> y: T[C], z?: f32[], n: int"
            " where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const float *o, int64_t k, double f, bool b,
                             int mode, const char *text, T *y, float *z, int64_t *n, int64_t N,
                             int64_t C)
{
    (void)ctx, (void)x, (void)o, (void)f, (void)b, (void)mode, (void)text, (void)N;
    for (int64_t c = 0; c < C; c++)
        y[c] = 0;
    if (z) *z = 1;
    *n = k;
    return WICK_OK;
}
"""


# ---- help() and inspect ----


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_operators_are_documented(name: str) -> None:
    """Signature, formula, types and gradient."""
    function = getattr(wick.ops, name)
    lines = function.__doc__.splitlines()
    assert lines[0] == f"{name}({lines[0][len(name) + 1 :]}" and " -> " in lines[0]
    # The head of its file has the formula.
    assert lines[2].startswith(f"{name.removesuffix('_backward')} -- ")
    assert "T is f16, bf16, f32 or f64." in lines
    if f"{name}_backward" in SHIPPED:
        assert lines[-1].startswith("The gradient of ")
        assert lines[-1].endswith(f" is {name}_backward.")
    else:
        assert lines[-1] == "Its file defines no gradient."
    assert function.__doc__ in pydoc.render_doc(function, renderer=pydoc.plaintext).replace(
        "\n    ", "\n"
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_signatures_name_every_argument(name: str) -> None:
    function = getattr(wick.ops, name)
    parameters = list(inspect.signature(function).parameters.values())
    schema = getattr(torch.ops.wick, name).default._schema
    takes_out = [p for p in parameters if p.name == "out" and p.kind is p.KEYWORD_ONLY]
    assert [p.name for p in parameters if p not in takes_out] == [a.name for a in schema.arguments]
    for a in schema.arguments:
        p = inspect.signature(function).parameters[a.name]
        assert (p.default is p.empty) == (not a.has_default_value())
        assert p.default is p.empty or p.default == a.default_value
        assert (p.kind is p.KEYWORD_ONLY) == a.kwarg_only


def test_which_inputs_have_a_gradient_is_said() -> None:
    last = {name: getattr(wick.ops, name).__doc__.splitlines()[-1] for name in SHIPPED}
    assert last["relu"] == "The gradient of x is relu_backward."
    assert last["mul"] == "The gradient of a and b is mul_backward."
    learned = "scale_bias_relu_learned"
    assert last[learned] == f"The gradient of x, bias and scale is {learned}_backward."
    assert "out is written in place." in wick.ops.add_out.__doc__


def test_every_kind_of_argument_has_its_place(make: Maker) -> None:
    op = make(EVERYTHING)
    signature = inspect.signature(op.direct)
    assert str(signature) == (
        "(x, o, s, k=-3, f=0.5, b=True, mode='mean', text='a b', *, out=None, want_z=True)"
    )
    arguments = signature.bind(torch.ones(2, 3), None, [3], want_z=False)
    y, z, n = op.direct(*arguments.args, **arguments.kwargs)
    assert (y.shape, z, n) == ((3,), None, -3)


def test_a_second_name_says_what_it_is(make: Maker) -> None:
    op = make(PAIR)
    assert f"The same operator as {op.name}_forward." in op.direct.__doc__.splitlines()
    first = getattr(op.loaded, f"{op.name}_forward")
    assert "The same operator" not in first.__doc__
    assert inspect.signature(first) == inspect.signature(op.direct)


def test_a_comment_in_another_encoding_can_be_read(tmp_path: Path) -> None:
    name = fresh()
    path = tmp_path / f"{name}.c"
    path.write_bytes(b"/* caf\xe9 -- in Latin 1 */\n" + spell(ADD, name).encode())
    function = getattr(wick.load(path), name)
    assert "caf� -- in Latin 1" in function.__doc__
    assert str(inspect.signature(function)) == "(x, by=1.0, *, out=None)"


def test_loading_again_renews_what_is_said(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, ADD, name)
    held = getattr(wick.load(path), name)
    path.write_text(
        "/* new words */\n" + spell(ADD.replace("by: float = 1.0", "by: float = 2.5"), name)
    )
    assert getattr(wick.load(path), name) is held
    assert "new words" in held.__doc__
    assert str(inspect.signature(held)) == "(x, by=2.5, *, out=None)"


# ---- identity ----


def test_an_operator_is_one_object(make: Maker) -> None:
    op = make(ADD)
    assert op.direct is op.wick is wick.load(op.path).__getattribute__(op.name)
    assert wick.ops.relu is wick.ops.relu
    other = make(ADD)
    assert op.direct != other.direct
    assert {op.direct: 1, other.direct: 2, wick.ops.relu: 3}[op.wick] == 1
    assert hash(op.direct) == hash(op.wick)


def test_names(make: Maker) -> None:
    op = make("WICK_NAMESPACE(acme_face);\n" + ADD, namespace="acme_face")
    assert (op.direct.__name__, op.direct.__module__) == (op.name, "wick.ops.acme_face")
    assert op.direct.__qualname__ == f"Operator.{op.name}"
    assert (wick.ops.relu.__name__, wick.ops.relu.__module__) == ("relu", "wick.ops")
    assert repr(wick.ops.relu.__self__) == "<wick operator wick::relu>"
    assert repr(wick.ops.relu).startswith("<built-in method relu of wick._wick.Operator object")


# ---- copies and pickles ----


def test_copies_are_the_operator(make: Maker) -> None:
    for function in (wick.ops.relu, make(ADD).direct):
        assert copy.copy(function) is function
        assert copy.deepcopy({"f": [function]})["f"][0] is function


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_references(make: Maker, protocol: int) -> None:
    for function in (wick.ops.relu, make(ADD).direct):
        assert pickle.loads(pickle.dumps(function, protocol)) is function
        # Python's own pickler takes the same way.
        file = io.BytesIO()
        pickle._Pickler(file, protocol).dump([function])
        assert pickle._loads(file.getvalue()) == [function]


def test_pickles_travel(tmp_path: Path) -> None:
    """To a process that has the operator; elsewhere it is said what is missing."""
    name = fresh()
    path = write(tmp_path, ADD, name)
    function = getattr(wick.load(path), name)
    (tmp_path / "both.pkl").write_bytes(pickle.dumps([wick.ops.relu, function]))
    (tmp_path / "shipped.pkl").write_bytes(pickle.dumps(wick.ops.relu))
    code = """
import pickle, sys
with open(sys.argv[1] + "/shipped.pkl", "rb") as file:
    relu = pickle.load(file)  # imports wick by itself
import torch, wick
assert relu is wick.ops.relu
def load():
    with open(sys.argv[1] + "/both.pkl", "rb") as file:
        return pickle.load(file)
try:
    load()
except AttributeError as error:
    print(error)
loaded = wick.load(sys.argv[2])
print(load()[1](torch.ones(1)).item(), load()[1] is getattr(loaded, loaded.names[0]))
"""
    said = run_python(code, str(tmp_path), str(path)).splitlines()
    assert said == [
        f"operator local::{name} is not loaded here: load {name}.c, or import the package that has it, first",
        "2.0 True",
    ]


def test_a_pickle_of_a_newer_wick_says_so() -> None:
    text = pickle.dumps(wick.ops.relu).replace(b"relu", b"gelu")
    with pytest.raises(AttributeError, match="^this version of Wick has no operator gelu$"):
        pickle.loads(text)


def test_a_pickle_says_nothing_of_the_machine(make: Maker) -> None:
    op = make(ADD)
    assert str(op.path.parent).encode() not in pickle.dumps(op.direct)


# ---- stubs ----


def functions_of(stub: str) -> dict[str, ast.FunctionDef]:
    found = [n for n in ast.parse(stub).body if isinstance(n, ast.FunctionDef)]
    return {f.name: f for f in found if f.name != "__getattr__"}


def check_stub(stub: ast.FunctionDef, function: Any) -> None:
    """The stub says what the function itself does."""
    source = f"def f({ast.unparse(stub.args)}): ..."
    names: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + source, names)
    plain = [
        p.replace(annotation=p.empty) for p in inspect.signature(names["f"]).parameters.values()
    ]
    assert inspect.Signature(plain) == inspect.signature(function)
    assert ast.get_docstring(stub) == inspect.cleandoc(function.__doc__)
    assert stub.returns is not None
    assert all(a.annotation for a in stub.args.args + stub.args.kwonlyargs)


def test_the_package_has_a_stub_of_its_operators() -> None:
    package = Path(wick.__file__).parent
    assert (package / "py.typed").exists()
    text = (package / "ops.pyi").read_text()
    functions = functions_of(text)
    assert sorted(functions) == SHIPPED
    for name, stub in functions.items():
        check_stub(stub, getattr(wick.ops, name))
    # What is not there is no function, so that a misspelt name is found; other namespaces are.
    assert "def __getattr__(name: str) -> Namespace: ..." in text


def wick_says(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [command(), *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_stubs_of_files_and_modules(tmp_path: Path) -> None:
    one, two, words = fresh(), fresh(), '/* one "quoted" \\back """ */\n'
    path = tmp_path / "ops.c"
    path.write_text(words + spell(EVERYTHING, one) + spell(PAIR, two).replace("f16 bf16 ", ""))
    loaded = wick.load(path)
    module = build_module(tmp_path / "ops.so", path)
    from_file = wick_says("show", "ops.c", "--stub", cwd=tmp_path)
    from_module = wick_says("show", module, "--stub", cwd=tmp_path)
    assert (from_file.returncode, from_file.stderr) == (0, "")
    assert from_file.stdout == from_module.stdout
    functions = functions_of(from_file.stdout)
    assert (
        sorted(functions)
        == sorted(loaded.names)
        == sorted([one, two, f"{two}_forward", f"{two}_backward"])
    )
    for name, stub in functions.items():
        check_stub(stub, getattr(loaded, name))
    types = ast.unparse(functions[one].args)
    assert "o: Tensor | None, s: Sequence[int], k: int=-3" in types
    assert "mode: Literal['sum', 'mean']='mean'" in types
    assert ast.unparse(functions[one].returns) == "tuple[Tensor, Tensor | None, int]"
    imports = [
        ast.unparse(n) for n in ast.parse(from_file.stdout).body if isinstance(n, ast.ImportFrom)
    ]
    assert imports == [
        "from collections.abc import Sequence",
        "from typing import Literal",
        "from torch import Tensor",
    ]


def test_a_build_writes_a_stub(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, ADD, name)
    done = wick_says("build", path.name, "--stub", "my.pyi", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    shown = wick_says("show", path.name, "--stub", cwd=tmp_path).stdout
    assert (tmp_path / "my.pyi").read_text() == shown
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, "my.pyi"])
    assert wick_says("build", path.name, "--stub", "my.pyi", cwd=tmp_path).returncode == 0
    done = wick_says("build", path.name, "--stub", "my.pyi", "-o", "my.so", cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "my.so").exists()


def test_a_stub_replaces_nothing_else(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, ADD, name)
    (tmp_path / "mine.pyi").write_text("x: int\n")
    done = wick_says("build", path.name, "--stub", "mine.pyi", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "wick build: mine.pyi is there and is not Wick's: name another place, or remove it\n"
    )
    assert (tmp_path / "mine.pyi").read_text() == "x: int\n"
    done = wick_says("build", path.name, "--stub", "__init__.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "wick build: __init__.py: the name of a stub file ends in .pyi\n",
    )
    done = wick_says("show", "no_such_operator", "--stub", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""


def test_the_list_and_the_description_have_second_names(tmp_path: Path) -> None:
    name = fresh()
    path = write(tmp_path, PAIR, name)
    listed = wick_says("list", path, cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in listed] == [
        f"local.{name}_forward",
        f"local.{name}",
        f"local.{name}_backward",
    ]
    assert listed[1].endswith(f"  is {name}_forward")
    assert f"\n  also     {name}\n" in wick_says("show", path, cwd=tmp_path).stdout
