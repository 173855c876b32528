"""The examples run as their pages say: operators, the C program without Python, the tour."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_cli import find_wick

import wick

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PACKAGE = Path(wick.__file__).resolve().parent
COMPILERS = [c for c in ("cc", "gcc", "clang", "clang-14") if shutil.which(c)]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    env = {**os.environ, **environment}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)


def run_well(*command: object, **environment: str) -> str:
    done = run(*command, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- the operators ----


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.c")), ids=lambda path: path.name)
def test_operator_files_are_short_and_build_without_warnings(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 30
    done = run(find_wick(), "build", "-q", path, "-o", tmp_path / "module.so")
    assert (done.returncode, done.stderr) == (0, "")
    assert wick.load(tmp_path / "module.so").names == [path.stem]


def test_addone_is_a_python_function_of_one_number() -> None:
    addone = wick.load(EXAMPLES / "addone.c").addone
    assert addone(1) == 2
    assert type(addone(1)) is int
    assert addone(-1) == 0
    with pytest.raises(RuntimeError, match="addone: x is 9223372036854775807"):
        addone(2**63 - 1)
    with pytest.raises(TypeError, match="addone: x is str"):
        addone("1")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scale_bias_equals_torch(dtype: torch.dtype) -> None:
    scale_bias = wick.load(EXAMPLES / "scale_bias.c").scale_bias
    x, bias = torch.randn(3, 5, 7).to(dtype), torch.randn(7).to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert torch.equal(scale_bias(x, bias, 0.5), (x.to(wide) * 0.5 + bias.to(wide)).to(dtype))
    assert torch.equal(scale_bias(x, bias), (x.to(wide) + bias.to(wide)).to(dtype))


def test_differences_equals_torch() -> None:
    differences = wick.load(EXAMPLES / "differences.c").differences
    transposed = torch.randn(6, 4, dtype=torch.float64).t()
    for x in (torch.randn(4, 6), transposed, torch.tensor([[1, 4, 9]])):
        assert torch.equal(differences(x), torch.diff(x))
    assert differences(torch.ones(3, 1)).shape == (3, 0)
    with pytest.raises(RuntimeError, match=re.escape("x.shape[1] is 0, which is not S+1")):
        differences(torch.ones(3, 0))


def test_clip_works_in_place_and_judges_its_numbers() -> None:
    clip_ = wick.load(EXAMPLES / "clip_.c").clip_
    x = torch.randn(100)
    expected, version = x.clamp(-0.5, 0.5), x._version
    assert clip_(x, -0.5, 0.5) is None
    assert torch.equal(x, expected)
    assert x._version == version + 1
    with pytest.raises(RuntimeError, match="clip_: low is 1, expected at most high, 0"):
        clip_(x, 1.0, 0.0)
    assert torch.equal(x, expected)


# ---- the C program ----


@pytest.fixture(scope="module", params=COMPILERS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, compiled against the installed headers and library by one line."""
    program = tmp_path_factory.mktemp("host") / "host"
    lib = PACKAGE / "lib"
    where = ["-I", PACKAGE / "include", "-L", lib, "-lwick", f"-Wl,-rpath,{lib}"]
    run_well(request.param, *WARNINGS, EXAMPLES / "c_host" / "main.c", *where, "-o", program)
    return program


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("module") / "scale_bias.so"
    run_well(find_wick(), "build", EXAMPLES / "scale_bias.c", "-o", path)
    return path


def test_c_program_calls_the_operator(host: Path, module: Path) -> None:
    assert run_well(host, module).splitlines() == [
        "local.scale_bias: x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
        " where T: f16 bf16 f32 f64",
        "allocated by Wick: 12 24 36 18 30 42",
        "in our own memory: 12 24 36 18 30 42",
        "a wrong shape: status 1, scale_bias: bias.shape[0] is 4, but C is 3",
    ]


def test_c_program_says_what_it_could_not_load(host: Path, tmp_path: Path) -> None:
    done = run(host, tmp_path / "nothing.so")
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path}/nothing.so: No such file or directory\n"


def test_c_program_links_neither_python_nor_torch(host: Path, module: Path) -> None:
    libraries = run_well("ldd", host)
    assert "libwick.so => " in libraries
    assert "not found" not in libraries
    for linked in (libraries, run_well("ldd", module)):
        assert not re.search(r"python|torch|c10|stdc\+\+", linked.replace(str(PACKAGE), ""))


def test_module_of_the_c_program_is_the_same_in_python(module: Path) -> None:
    x, bias = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([10.0, 20, 30])
    y = wick.load(module).scale_bias(x, bias, 2.0)
    assert y.flatten().tolist() == [12, 24, 36, 18, 30, 42]


# ---- the tour ----


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
def test_tour(rich: bool, tmp_path: Path) -> None:
    environment = {}
    if not rich:  # a module of that name that cannot be imported, in front of the real one
        (tmp_path / "rich.py").write_text("raise ImportError\n")
        folders = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    text = run_well(sys.executable, EXAMPLES / "tour.py", **environment)
    assert ">>> addone(1)\n2\n" in text
    assert "RuntimeError: scale_bias_relu: bias.shape[0] is 255, but C is 256" in text
    assert "wick.BuildError: broken.c:12:60: error: 'bais' undeclared" in text
    assert re.search(r"Wick, torch\.ops\W+\d+\.\d\d", text)
    assert "Traceback" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
