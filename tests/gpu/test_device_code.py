"""Device code on a GPU: compiled when it is first needed, taken out of modules, made by nvcc; launch choices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import command, fresh, run_python, spell
from test_cuda_build import COPY_KERNEL, FOREIGN, GUARDED, build, built, compilers, kernel

import wick
from wick import _wick, cli_tune

DTYPES = [torch.float32, torch.float16]
ARCH = "sm_{}{}".format(*torch.cuda.get_device_capability())


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WICK_CACHE_DIR", str(tmp_path / "cache"))


def can_build() -> bool:
    try:
        return bool(command())
    except AssertionError:
        return False


needs_command = pytest.mark.skipif(not can_build(), reason="the wick command is not here")
needs_nvcc = pytest.mark.skipif(
    not can_build() or "nvcc" not in compilers(), reason="nvcc is not here"
)


def check_copy(operator, by: float = 2.0) -> None:
    for dtype in DTYPES:
        for n in (0, 1, 1000, 100_003):
            x = torch.randn(n, device="cuda").to(dtype)
            expected = (x.float() * by).to(dtype)
            assert torch.equal(operator(x, by), expected)


# ---- sources ----


def test_kernels_are_compiled_when_they_are_needed(tmp_path: Path) -> None:
    name, path = kernel(tmp_path)
    loaded = wick.load(path)
    cubins = list((tmp_path / "cache").rglob("*.cubin"))
    assert len(cubins) == 1, "one type when it is loaded"
    check_copy(getattr(loaded, name))
    assert len(list((tmp_path / "cache").rglob("*.cubin"))) == 2


def test_an_edited_kernel_is_another(tmp_path: Path) -> None:
    name, path = kernel(tmp_path)
    x = torch.ones(5, device="cuda")
    assert getattr(wick.load(path), name)(x, 3.0).tolist() == [3.0] * 5
    text = path.read_text()
    path.write_text(text.replace("* by);\n}\nWICK", "* by + 1);\n}\nWICK"))
    assert getattr(wick.load(path), name)(x, 3.0).tolist() == [4.0] * 5
    path.write_text(text)
    assert getattr(wick.load(path), name)(x, 3.0).tolist() == [3.0] * 5


def test_a_header_that_changed_before_the_first_launch(tmp_path: Path) -> None:
    (tmp_path / "gates.h").write_text("WICK_FN float gate(float v) { return v; }\n")
    text = '#include "gates.h"\n' + COPY_KERNEL.replace(
        "* by);\n}\nWICK", "* (A)gate(by));\n}\nWICK"
    )
    name, path = kernel(tmp_path, text)
    operator = getattr(wick.load(path), name)
    (tmp_path / "gates.h").write_text("WICK_FN float gate(float v) { return v + 1; }\n")
    with pytest.raises(wick.BuildError, match="has changed since it was loaded: load it again"):
        operator(torch.ones(3, device="cuda", dtype=torch.float16), 2.0)
    operator = getattr(wick.load(path), name)
    assert operator(torch.ones(3, device="cuda", dtype=torch.float16), 2.0).tolist() == [3.0] * 3


def test_a_file_whose_cuda_half_is_behind_a_guard(tmp_path: Path) -> None:
    name, path = kernel(tmp_path, GUARDED, ".cu")
    operator = getattr(wick.load(path), name)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for n, c in ((1, 1), (7, 5), (70_001, 8), (33, 4096)):
            x, bias = torch.randn(n, c, device="cuda").to(dtype), torch.randn(c, device="cuda")
            bias = bias.to(dtype)
            wanted = torch.relu(x.float() * 0.5 + bias.float()).to(dtype)
            torch.testing.assert_close(operator(x, bias, 0.5), wanted)


PARAMETERS = """\
WICK_OP(OP, "x: f32[N] -> y: f32[N]");
struct pair { float a; int64_t b; };
static __global__ void OP_vectors(const float4 *x, struct pair p, float4 add, float *y);
static __global__ void OP_nothing(void) { }
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    float4 add = {1, 2, 3, 4};
    wick_status status = WICK_LAUNCH(ctx, OP_nothing, wick_1d(1), wick_1d(1), 0);
    if (status) return status;
    return WICK_LAUNCH(ctx, OP_vectors, wick_1d(1), wick_1d(1), 0, (const float4 *)x,
                       ((struct pair){0.5f, N}), add, y);
}
static __global__ void OP_vectors(const float4 *x, struct pair p, float4 add, float *y)
{
    for (int64_t i = 0; i < p.b / 4; i++) {
        float4 v = x[i];
        y[4 * i] = v.x * p.a + add.x;
        y[4 * i + 1] = v.y * p.a + add.y;
        y[4 * i + 2] = v.z * p.a + add.z;
        y[4 * i + 3] = v.w * p.a + add.w;
    }
}
"""


def test_structs_vectors_and_nothing_as_parameters(tmp_path: Path) -> None:
    name, path = kernel(tmp_path, PARAMETERS, ".cu")
    x = torch.arange(8.0, device="cuda")
    y = getattr(wick.load(path), name)(x)
    assert y.tolist() == [1.0, 2.5, 4.0, 5.5, 3.0, 4.5, 6.0, 7.5]


# ---- faults ----

FAULTY = """\
#include <wick/op.h>
WICK_OP(astray, "x: f32[N] -> y: f32[N]");
static __global__ void astray_kernel(float *y, int64_t far) { y[far] = 1; }
WICK_IMPL wick_status astray_cuda(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)x;
    return WICK_LAUNCH(ctx, astray_kernel, wick_1d(N), wick_1d(32), 0, y, (int64_t)1 << 40);
}
"""
BLAMED = """
import sys, torch, wick
astray = wick.load(sys.argv[1]).astray
try:
    astray(torch.ones(3, device="cuda"))
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("name, value", [("WICK_DEBUG", "sync"), ("CUDA_LAUNCH_BLOCKING", "1")])
def test_a_kernel_that_fails_is_named(name: str, value: str, tmp_path: Path) -> None:
    """In a process of its own: CUDA does nothing more in the one where it happens."""
    path = tmp_path / "astray.cu"
    path.write_text(FAULTY)
    said = run_python(BLAMED, str(path), **{name: value})
    assert said.startswith("astray: kernel astray_kernel, grid (3, 1, 1), block (32, 1, 1)"), said
    assert " failed: CUDA_ERROR_ILLEGAL_ADDRESS" in said, said  # it, not one before it


# ---- modules ----


@needs_command
@pytest.mark.parametrize("archs", [f"{ARCH}-PTX", "sm_75"], ids=["machine code", "older PTX"])
def test_a_module_brings_its_code(archs: str, tmp_path: Path) -> None:
    name, path = kernel(tmp_path)
    check_copy(getattr(wick.load(built(path, WICK_CUDA_ARCHS=archs)), name))


@needs_command
def test_a_module_for_another_gpu_says_so(tmp_path: Path) -> None:
    name, path = kernel(tmp_path)
    other = "sm_90" if ARCH != "sm_90" else "sm_75"
    operator = getattr(wick.load(built(path, WICK_CUDA_ARCHS=f"{other}-PTX")), name)
    words = f"the module holds {other} code, but the device is {ARCH}"
    with pytest.raises(RuntimeError, match=words):
        operator(torch.ones(3, device="cuda"), 2.0)


@needs_command
def test_a_module_without_cuda_says_so(tmp_path: Path) -> None:
    name, path = kernel(tmp_path)
    output = tmp_path / "op.so"
    assert build(path, output=output, flags=("--no-cuda",)).returncode == 0
    with pytest.raises(RuntimeError, match="the operator has only a CPU version"):
        getattr(wick.load(output), name)(torch.ones(3, device="cuda"), 2.0)


@needs_nvcc
def test_a_file_that_launches_by_itself(tmp_path: Path) -> None:
    name, path = kernel(tmp_path, FOREIGN, ".cu")
    operator = getattr(wick.load(path), name)
    for n in (0, 1, 1000, 100_003):
        x = torch.randn(n, device="cuda")
        assert torch.equal(operator(x), x + x)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.randn(1000, device="cuda")
        y = operator(x)
    side.synchronize()
    assert torch.equal(y, x + x)


# ---- launch choices ----

TUNED = """\
WICK_OP(OP, "x: f32[N, C] -> y: f32[N, C]");
WICK_TUNE(OP, "threads: 32 64 128, idle: 1 2");
static __global__ void OP_kernel(const float *x, float *y, int64_t n)
{
    for (int64_t i = wick_thread(); i < n; i += wick_threads())
        y[i] = VALUE;
}
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const float *x, float *y, int64_t N, int64_t C)
{
    const int64_t threads = wick_tuned(ctx, threads, 96);
    return WICK_LAUNCH(ctx, OP_kernel, wick_1d(4), wick_1d(threads), 0, x, y, N * C);
}
"""


def tunable(folder: Path, value: str) -> tuple[str, Path]:
    name = fresh("tuned")
    path = folder / f"{name}.cu"
    path.write_text(spell(TUNED.replace("VALUE", value), name))
    return name, path


def test_choices_reach_the_launch(tmp_path: Path) -> None:
    name, path = tunable(tmp_path, "(float)blockDim.x")
    operator = getattr(wick.load(path), name)

    def threads(n: int, c: int) -> float:
        return operator(torch.zeros(n, c, device="cuda"))[0, 0].item()

    assert threads(4, 4) == 96.0, "the rule"
    _wick.tune_force("local", name, (64, 2))
    assert threads(4, 4) == 64.0 and threads(100, 3) == 64.0
    _wick.tune_force("local", name, None)
    file = Path(_wick.tune_path("local", name, torch.cuda.get_device_name()))
    file.parent.mkdir(parents=True)
    key = _wick.tune_key("local", name, [], [100, 3])
    file.write_text(f"{_wick.tune_choices('local', name)[0]}\n{key} 128,1\n")
    assert threads(100, 3) == 96.0, "read once"
    _wick.tune_forget("local", name)
    assert threads(100, 3) == 128.0 and threads(127, 2) == 128.0 and threads(128, 3) == 96.0


def test_wick_tune(tmp_path: Path) -> None:
    """What it finds is the machine's business; that what it writes is used is ours."""
    name, path = tunable(tmp_path, "x[i] + 1")
    words = [str(path), "--size", "N=4096 C=1024", "--rounds", "3"]
    done = subprocess.run(
        [sys.executable, cli_tune.__file__, *words],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(torch.cuda.get_device_name()), done.stdout
    assert f"local.{name}: threads: 32 64 128, idle: 1 2" in done.stdout
    assert "kept" in done.stdout or "the rule stays" in done.stdout
    x = torch.randn(4096, 1024, device="cuda")
    assert torch.equal(getattr(wick.load(path), name)(x), x + 1)
