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
        names = re.sub(r"\(0x[0-9a-f]+\)", "", linked)  # an address may well have c10 in it
        assert not re.search(r"python|torch|c10|stdc\+\+", names.replace(str(PACKAGE), ""))


def test_module_of_the_c_program_is_the_same_in_python(module: Path) -> None:
    x, bias = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([10.0, 20, 30])
    y = wick.load(module).scale_bias(x, bias, 2.0)
    assert y.flatten().tolist() == [12, 24, 36, 18, 30, 42]


# ---- training ----


def test_training_converges() -> None:
    losses = re.findall(r"loss (\d\.\d+)", run_well(sys.executable, EXAMPLES / "training/train.py"))
    assert len(losses) == 5
    assert float(losses[-1]) < 0.01 < 0.5 < float(losses[0])


def test_training_operator_and_its_gradient() -> None:
    snake = wick.load(EXAMPLES / "training/snake.c").snake
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    a = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(snake(x, a), x + torch.sin(a * x) ** 2 / a)
    assert torch.autograd.gradcheck(snake, (x, a))
    assert torch.autograd.gradcheck(lambda x: snake(x, a.detach()), (x,))


def test_training_on_two_processes_is_training_on_one() -> None:
    """The script compares the parameters itself, and fails where they differ."""
    said = run_well(sys.executable, EXAMPLES / "training/ddp.py")
    words = [line.split(":")[0] for line in said.splitlines()]
    assert {"process 0", "process 1", "one process"} <= set(words)
    assert "the parameters differ by at most" in said


# ---- the documents' folders ----


def test_every_example_is_run() -> None:
    """Here, or by its README (test_docs.py)."""
    found = {str(p.relative_to(EXAMPLES)) for p in EXAMPLES.rglob("*.py")}
    assert found == {
        "tour.py",
        "training/train.py",
        "training/ddp.py",
        "chapter5/load_jit.py",
        "chapter5/example_usage.py",
        "chapter5/test_custom_ops.py",
        "chapter5/src/custom_ops/__init__.py",
        "template/src/extension_cpp/__init__.py",
        "template/src/extension_cpp/reference.py",
        "template/tests/test_operators.py",
        "megastep/wrapper.py",
        "rnnt/lstm.py",
        "inductor/compiled.py",
    }


@pytest.mark.parametrize("cc", [c for c in ("gcc", "clang", "clang-14") if shutil.which(c)])
def test_compilers_have_nothing_to_say(cc: str, tmp_path: Path) -> None:
    sources = [p for p in EXAMPLES.rglob("*.c") if "WICK_OP(" in p.read_text()]
    assert len(sources) > 10
    flags = [w for f in ("-Wextra", "-Wshadow", "-Wconversion", "-Werror") for w in ("--flag", f)]
    for folder in {p.parent for p in sources}:  # addone is in two of them
        mine = [p for p in sources if p.parent == folder]
        run_well(
            find_wick(), "build", "--quiet", "--cc", cc, *flags, *mine, "-o", tmp_path / "m.so"
        )


def install(example: str, package: str, folder: Path) -> Path:
    """The package as `pip install` would lay it out, built by its own CMakeLists.txt."""
    if not shutil.which("cmake") or not shutil.which("ninja"):
        pytest.skip("cmake and ninja are not installed")
    source, build, site = EXAMPLES / example, folder / "build", folder / "site"
    run_well("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-Dwick_DIR={PACKAGE / 'cmake'}")
    run_well("cmake", "--build", build)
    run_well("cmake", "--install", build, "--prefix", site)
    shutil.copytree(source / "src" / package, site / package, dirs_exist_ok=True)
    return site


def test_template_package_passes_its_tests(tmp_path: Path) -> None:
    site = install("template", "extension_cpp", tmp_path)
    shutil.copytree(EXAMPLES / "template" / "tests", tmp_path / "tests")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "tests"]
    said = run_well(*words, PYTHONPATH=path)
    assert re.search(r"^\d\d passed", said, re.M) and "skipped" not in said, said


def test_chapter5_package_passes_its_tests(tmp_path: Path) -> None:
    """Installed: load_jit.py is not there to fall back on."""
    site = install("chapter5", "custom_ops", tmp_path)
    for name in ("example_usage.py", "test_custom_ops.py"):
        shutil.copy(EXAMPLES / "chapter5" / name, tmp_path)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    said = run_well(sys.executable, tmp_path / "test_custom_ops.py", PYTHONPATH=path)
    assert said.endswith("Total: 6/6 tests passed\n")
    said = run_well(sys.executable, tmp_path / "example_usage.py", PYTHONPATH=path)
    assert "Bias gradient shape: torch.Size([256])" in said


def test_megastep_wrapper() -> None:
    assert run_well(sys.executable, EXAMPLES / "megastep/wrapper.py").splitlines() == [
        "2",
        "tensor([2.])",
        "tensor([0, 0, 2, 2, 2], dtype=torch.int32)",
    ]


def test_megastep_ragged_arrays() -> None:
    op = wick.load(EXAMPLES / "megastep/ragged.c")
    for widths in ([], [0], [3], [0, 2, 0, 0, 5, 1, 0]):
        w = torch.tensor(widths, dtype=torch.int32)
        ends = w.cumsum(0).to(torch.int32)
        assert torch.equal(op.ragged_ends(w), ends)
        assert torch.equal(op.ragged_starts(w), ends - w)
        rows = torch.arange(len(widths)).repeat_interleave(w).to(torch.int32)
        assert torch.equal(op.ragged_inverse(w, sum(widths)), rows)
    with pytest.raises(RuntimeError, match=re.escape("widths[1] is -1, expected at least 0")):
        op.ragged_ends(torch.tensor([2, -1], dtype=torch.int32))
    with pytest.raises(RuntimeError, match="widths add up to 4294967294, more than an i32 holds"):
        op.ragged_starts(torch.tensor([2**31 - 1] * 2, dtype=torch.int32))


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
    assert re.search(r"loss \d\.\d+ -> 0\.0\d+ in 300 steps of Adam", text)
    listing = text[text.index("/* in snake_backward_cpu: */") : text.index(">>> train(")]
    assert listing.count("for (") == 1 and listing.count("{") == listing.count("}") == 1
    assert "if (da) da[c] = (T)sum;" in listing and "WICK_IMPL" not in listing
    assert re.search(r"Wick, torch\.ops\W+\d+\.\d\d", text)
    assert "Traceback" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
