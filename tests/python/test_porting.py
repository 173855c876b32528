"""The "after" of docs/porting.md: each file builds, computes what it did in C++, and is shown."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from support import build_module, run_python
from test_cli import find_wick

import wick

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "porting.md").read_text()
ADDONE, CONVRNN, LSTM_CELL, FUSED_OP, ADD_CONSTANT = FILES = [
    ROOT / "examples" / name
    for name in (
        "megastep/addone.c",
        "template/ops/convrnn.c",
        "rnnt/lstm_cell.c",
        "chapter5/ops/fused_op.c",
        "inductor/add_constant.c",
    )
]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["f32", "f64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


# ---- the files and the page ----


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_builds_without_warnings(path: Path, tmp_path: Path) -> None:
    command = [find_wick(), "build", path, "-o", tmp_path / "module.so"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("wick build: ") for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_page_shows_the_file_as_it_is(path: Path) -> None:
    text = path.read_text()
    shown = [
        block for block in re.findall(r"^```c\n(.*?)^```$", PAGE, re.M | re.S) if block in text
    ]
    assert f"After, `{path.relative_to(ROOT)}`" in PAGE
    assert any("WICK_OP(" in block for block in shown), f"the page shows no part of {path.name}"


def test_every_c_block_of_the_page_is_part_of_a_file() -> None:
    texts = [path.read_text() for path in FILES]
    for block in re.findall(r"^```c\n(.*?)^```$", PAGE, re.M | re.S):
        assert any(block in text for text in texts), block


def test_the_python_of_the_page_runs() -> None:
    """The blocks that say `# after` in their first line, each in a process of its own."""
    blocks = re.findall(r"^```python\n(# after.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) >= 5
    for block in blocks:
        run_python(f"import os; os.chdir({str(ROOT)!r})\n{block}")


# ---- what they compute ----


def test_addone() -> None:
    assert wick.load(ADDONE).addone(1) == 2
    assert torch.ops.testkernels.addone(-1) == 0


def convrnn_reference(x: torch.Tensor, kernel: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    steps = [hidden]
    for s in range(x.shape[1]):
        padded = torch.nn.functional.pad(steps[-1][:, None], (1, 1), mode="circular")
        steps.append(torch.tanh(x[:, s] + torch.nn.functional.conv1d(padded, kernel)[:, 0]))
    return torch.stack(steps, 1)


def test_convrnn(dtype: torch.dtype) -> None:
    """examples/template has its own tests, for every type and for the gradient."""
    op = wick.load(CONVRNN).convrnn_forward
    x, kernel = torch.randn(2, 10, 64, dtype=dtype), torch.randn(1, 1, 3, dtype=dtype)
    hidden = torch.randn(2, 64, dtype=dtype)
    wanted = convrnn_reference(x.double(), kernel.double(), hidden.double()).to(dtype)
    torch.testing.assert_close(op(x, kernel, hidden), wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match=r"convrnn_forward: kernel.shape\[1\] is 2, expected 1"):
        op(x, torch.randn(1, 2, 3, dtype=dtype), hidden)


def test_convrnn_has_a_fake_implementation_that_nobody_wrote() -> None:
    wick.load(CONVRNN)
    x, kernel, hidden = torch.randn(2, 3, 8), torch.randn(1, 1, 3), torch.randn(2, 8)
    compiled = torch.compile(
        torch.ops.extension_cpp.convrnn_forward, backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(x, kernel, hidden), convrnn_reference(x, kernel, hidden))


class LstmCell(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates, c0):
        h, c = torch.ops.rnnt_ext.lstm_cell(gates, c0)
        ctx.save_for_backward(gates, c0, c)
        return h, c

    @staticmethod
    def backward(ctx, dh, dc):
        return torch.ops.rnnt_ext.lstm_cell_backward(dh, dc, *ctx.saved_tensors)


def test_lstm_cell_and_its_gradient() -> None:
    wick.load(LSTM_CELL)
    gates = torch.randn(3, 20, dtype=torch.float64, requires_grad=True)
    c0 = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c0 + i.sigmoid() * g.tanh()
    torch.testing.assert_close(LstmCell.apply(gates, c0), (o.sigmoid() * c.tanh(), c))
    assert torch.autograd.gradcheck(LstmCell.apply, (gates, c0))
    assert torch.autograd.gradcheck(torch.ops.rnnt_ext.lstm_cell, (gates, c0))  # by its name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_fused_op(dtype: torch.dtype) -> None:
    op = wick.load(FUSED_OP).fused_op_forward
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x, bias = torch.randn(32, 64).to(dtype), torch.randn(64).to(dtype)
    for given in (x, x.t().contiguous().t(), x[None].expand(2, 32, 64)):
        expected = torch.relu(given.to(wide) * 2.0 + bias.to(wide)).to(dtype)
        assert torch.equal(op(given, bias, 2.0), expected)


def test_add_constant() -> None:
    op = wick.load(ADD_CONSTANT).add_constant
    values, x = torch.tensor(list(range(2, 40, 2))), torch.randn(1)
    assert torch.equal(op(values, x), values + x)


def test_one_module_holds_them_all_and_a_package_loads_it(tmp_path: Path) -> None:
    package = tmp_path / "extension_cpp"
    package.mkdir()
    build_module(package / "ops.so", *FILES)
    [block] = re.findall(r"^```python\n# extension_cpp/__init__.py\n(.*?)^```$", PAGE, re.M | re.S)
    (package / "__init__.py").write_text(block)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import torch, extension_cpp\n"
        "print(sorted(extension_cpp.ops.names)); print(torch.ops.testkernels.addone(1))"
    )
    names, two = run_python(code, str(tmp_path)).splitlines()
    pairs = [
        f"{op}{end}" for op in ("convrnn", "fused_op") for end in ("", "_backward", "_forward")
    ]
    assert names == str(["add_constant", "addone", *pairs, "lstm_cell", "lstm_cell_backward"])
    assert two == "2"


def test_a_cpp_source_is_sent_to_the_page(tmp_path: Path) -> None:
    path = tmp_path / "wrappers.cpp"
    path.write_text("#include <torch/extension.h>\n")
    with pytest.raises(wick.BuildError) as error:
        wick.load(path)
    assert str(error.value).startswith(f"{path}:1: this is a C++ source")
