"""The package as a whole: what importing it does, what it shows, and that it is the same in every mode of calling."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import run_python

import wick

HERE = Path(__file__).parent


def test_importing_wick_leaves_the_compiler_alone() -> None:
    code = """
import sys, torch
before = {m for m in sys.modules if m.startswith(("torch._dynamo", "torch._inductor", "torch._functorch._aot"))}
import wick
wick.ops.relu(torch.ones(3))
wick.ops.relu(torch.ones(3, requires_grad=True))
torch.ops.wick.relu(torch.ones(3))
after = {m for m in sys.modules if m.startswith(("torch._dynamo", "torch._inductor", "torch._functorch._aot"))}
print(sorted(after - before), "torch._dynamo" in sys.modules)
"""
    assert run_python(code).split() == ["[]", "False"]


def test_wick_imports_torch_itself() -> None:
    assert run_python("import wick, sys; print('torch' in sys.modules)").strip() == "True"


def test_loading_does_not_import_the_compiler(tmp_path: Path) -> None:
    code = """
import sys, torch, wick
op = wick.load(source='''#include <wick/op.h>
WICK_OP(one, "x: int -> y: int");
WICK_IMPL wick_status one_cpu(wick_ctx *ctx, int64_t x, int64_t *y) { (void)ctx; *y = x + 1; return WICK_OK; }
''')
print(op.one(1), torch.ops.local.one(1), "torch._dynamo" in sys.modules)
"""
    assert run_python(code).split() == ["2", "2", "False"]


def test_what_the_package_offers() -> None:
    for name in wick.__all__:
        assert getattr(wick, name) is not None
    assert wick.__version__.count(".") == 2
    assert issubclass(wick.BuildError, RuntimeError) and issubclass(wick.BuildWarning, UserWarning)
    assert wick.BuildError.__module__ == "wick"


def test_shipped_operators_are_documented() -> None:
    for name in [
        "addone",
        "muladd",
        "mul",
        "add_out",
        "scale_bias_relu",
        "relu",
        "reduce_sum",
        "reduce_sum_dim",
    ]:
        function = getattr(wick.ops, name)
        assert function.__name__ == name and name in dir(wick.ops)
        assert len(function.__doc__.splitlines()) >= 3


def test_no_compiler_is_needed_for_shipped_operators() -> None:
    code = "import wick, torch; print(wick.ops.relu(torch.ones(1, dtype=torch.bfloat16)).item())"
    assert run_python(code, PATH="/nonexistent", CC="/nonexistent").strip() == "1.0"


def test_loading_without_a_compiler_says_so() -> None:
    code = """
import wick
try:
    wick.load(source='#include <wick/op.h>\\nWICK_OP(one, "x: int -> y: int");\\nWICK_IMPL wick_status one_cpu(wick_ctx *ctx, int64_t x, int64_t *y) { (void)ctx; *y = x; return WICK_OK; }\\n')
except wick.BuildError as e:
    print(e)
"""
    assert "/nonexistent" in run_python(code, CC="/nonexistent")


def test_a_mode_that_does_not_exist() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import wick"],
        env={**os.environ, "WICK_DIRECT": "sideways"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1 and "WICK_DIRECT=sideways" in done.stderr


@pytest.mark.skipif("WICK_DIRECT" in os.environ, reason="runs in each mode already")
@pytest.mark.parametrize("mode", ["dlpack", "dispatcher"])  # this very run is the third
def test_every_mode_calls_alike(mode: str) -> None:
    assert run_python("import wick; print(wick._calls.mode)", WICK_DIRECT=mode).strip() == mode
    files = [
        "test_direct.py",
        "test_errors.py",
        "test_inplace.py",
        "test_dispatcher.py",
        "test_reload.py",
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *[str(HERE / f) for f in files],
        ],
        env={**os.environ, "WICK_DIRECT": mode},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_the_best_mode_is_chosen_where_torch_allows_it() -> None:
    code = "import wick; print(wick._calls.mode, *wick._calls.learnt)"
    environment = {k: v for k, v in os.environ.items() if k != "WICK_DIRECT"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.split() == ["internals", "layout", "memory", "versions", "devices"], (
        done.stderr
    )
