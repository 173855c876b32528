"""Operator files with kernels: built, refused and loaded on machines without a GPU.

NVRTC compiles for any GPU without having one, so what a kernel's author meets at build time is tested here; what needs
a GPU to run is in tests/gpu.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from support import command, fresh, run_python, spell

import wick

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = Path(wick.__file__).parent / "include"
ARCHS = "sm_75,sm_80,sm_90,sm_100"

# ---- compilers ----


def build(*sources: Path | str, output: Path, flags: tuple[str, ...] = (), **environment: str):
    """`wick build` for one level of CPUs, as a finished process."""
    return subprocess.run(
        [command(), "build", "--native", "--include", INCLUDE, *flags, "-o", output, *sources],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


COPY_KERNEL = """\
WICK_OP(OP, "x: T[*N], by: float -> y: T[*N] where T: f32 f16");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = wick_T(wick_A(x[i]) * (A)by);
    return WICK_OK;
}
static __global__ void OP_kernel(const T *x, A by, T *y, int64_t N)
{
    for (int64_t i = wick_thread(); i < N; i += wick_threads())
        y[i] = wick_T(wick_A(x[i]) * by);
}
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    return WICK_LAUNCH(ctx, OP_kernel, wick_1d(wick_ceil_div(N, 256)), wick_1d(256), 0, x, by, y, N);
}
"""
"""y = by * x. The kernel begins at line 10, its body at 12, the launch is on line 17."""


@cache
def compilers() -> frozenset[str]:
    """Those of nvrtc and nvcc that this machine has."""
    found = set()
    if shutil.which("nvcc") or os.access("/usr/local/cuda/bin/nvcc", os.X_OK):
        found.add("nvcc")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "op.c"
        path.write_text(spell(COPY_KERNEL, "op"))
        if build(path, output=Path(folder) / "op.so", WICK_CUDA_COMPILER="nvrtc").returncode == 0:
            found.add("nvrtc")
    return frozenset(found)


@pytest.fixture
def device_compiler() -> None:
    if not compilers():
        pytest.skip("neither NVRTC (pip install nvidia-cuda-nvrtc) nor nvcc is here")


@pytest.fixture
def nvrtc() -> None:
    if "nvrtc" not in compilers():
        pytest.skip("NVRTC is not here (pip install nvidia-cuda-nvrtc)")


@pytest.fixture
def nvcc() -> None:
    if "nvcc" not in compilers():
        pytest.skip("nvcc is not here")


# ---- what is in a module ----


class Code(ctypes.Structure):
    _fields_ = [
        ("arch", ctypes.c_int32),
        ("is_ptx", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
    ]


class Device(ctypes.Structure):
    _fields_ = [("code", ctypes.POINTER(Code)), ("n_code", ctypes.c_int64)]


class Variant(ctypes.Structure):
    _fields_ = [
        ("types", ctypes.c_uint8 * 4),
        ("isa", ctypes.c_int32),
        ("cpu", ctypes.c_void_p),
        ("cuda", ctypes.c_void_p),
        ("device", ctypes.POINTER(Device)),
    ]


class Entry(ctypes.Structure):
    _fields_ = [
        ("words", ctypes.c_char_p * 5),
        ("line", ctypes.c_int64),
        ("variants", ctypes.POINTER(ctypes.POINTER(Variant))),
        ("n_variants", ctypes.c_int64),
    ]


class Table(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("abi", ctypes.c_uint32),
        ("built_by", ctypes.c_char_p),
        ("ops", ctypes.POINTER(Entry)),
    ]


def variants(module: Path) -> list[Variant]:
    """Those of the first operator of a module, read as a host does (include/wick/glue.h)."""
    entry = Table.in_dll(ctypes.CDLL(str(module)), "wick_module").ops[0]
    return [entry.variants[i].contents for i in range(entry.n_variants)]


def codes(module: Path) -> list[tuple[int, bool, bytes]]:
    """(architecture, whether it is PTX, the bytes) of the first variant."""
    device = variants(module)[0].device.contents
    every = [device.code[i] for i in range(device.n_code)]
    return [(c.arch, bool(c.is_ptx), ctypes.string_at(c.data, c.size)) for c in every]


# ---- the operators that come with Wick ----

WITH_KERNELS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("ops", "examples")
    for path in (ROOT / folder).rglob("*.c*")
    if path.suffix in (".c", ".cu") and "__global__" in path.read_text()
)


@pytest.mark.skipif(not WITH_KERNELS, reason="no operator has a kernel")
@pytest.mark.parametrize("file", WITH_KERNELS)
def test_shipped_kernels_compile_for_every_gpu_without_a_word(
    file: str, device_compiler: None, tmp_path: Path
) -> None:
    done = build(ROOT / file, output=tmp_path / "op.so", flags=("-q", "--arch", ARCHS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = [(arch, ptx) for arch, ptx, _ in codes(tmp_path / "op.so")]
    assert found == [(75, False), (80, False), (90, False), (100, False), (100, True)]
    assert all(v.cuda for v in variants(tmp_path / "op.so")), "in every type"


# ---- ahead of time ----


def kernel(folder: Path, text: str = COPY_KERNEL, suffix: str = ".c") -> tuple[str, Path]:
    name = fresh()
    path = folder / f"{name}{suffix}"
    path.write_text(spell(text, name))
    return name, path


def built(path: Path, **environment: str) -> Path:
    output = path.with_suffix(".so")
    done = build(path, output=output, **environment)
    assert done.returncode == 0, done.stderr
    return output


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_either_compiler_makes_the_same_module(
    compiler: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(compiler)
    name, path = kernel(tmp_path)
    module = built(path, WICK_CUDA_COMPILER=compiler, WICK_CUDA_ARCHS="8.0;9.0+PTX")
    first, second, ptx = codes(module)
    assert first[:2] == (80, False) and second[:2] == (90, False) and ptx[:2] == (90, True)
    assert first[2].startswith(b"\x7fELF") and second[2].startswith(b"\x7fELF")
    assert b".target sm_90" in ptx[2] and f".entry {name}_kernel(".encode() in ptx[2]
    assert ptx[2].endswith(b"\0"), "the driver reads it as a string"
    needed = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    assert not re.search("cuda|torch|python|nvrtc", needed)


def test_a_module_with_kernels_is_loaded_where_there_is_no_gpu(
    device_compiler: None, tmp_path: Path
) -> None:
    name, path = kernel(tmp_path)
    operator = getattr(wick.load(built(path)), name)
    assert operator(torch.ones(3), 2.0).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("way", ["--no-cuda", "USE_CUDA"])
def test_without_cuda(way: str, tmp_path: Path) -> None:
    """Neither compiler is needed then, nor an architecture that makes sense."""
    _, path = kernel(tmp_path)
    output = tmp_path / "op.so"
    nothing = {"WICK_NVRTC": "/nowhere/libnvrtc.so", "WICK_CUDA_COMPILER": "/nowhere/nvcc"}
    if way == "USE_CUDA":
        done = build(path, output=output, USE_CUDA="0", **nothing)
    else:
        done = build(path, output=output, flags=(way,), WICK_CUDA_ARCHS="all", **nothing)
    assert done.returncode == 0, done.stderr
    assert all(v.cpu and not v.cuda and not v.device for v in variants(output))


def test_a_build_without_a_compiler_of_kernels_says_what_to_install(tmp_path: Path) -> None:
    _, path = kernel(tmp_path)
    done = build(
        path,
        output=tmp_path / "op.so",
        WICK_NVRTC="/nowhere/libnvrtc.so",
        WICK_CUDA_COMPILER="nvrtc",
    )
    assert done.returncode == 1 and f"{path}:1: WICK_NVRTC names no NVRTC" in done.stderr


def test_an_architecture_that_does_not_exist(device_compiler: None, tmp_path: Path) -> None:
    _, path = kernel(tmp_path)
    done = build(path, output=tmp_path / "op.so", flags=("--arch", "ampere"))
    assert done.returncode == 1 and '--arch: "ampere" is not an architecture' in done.stderr
    done = build(path, output=tmp_path / "op.so", flags=("--arch", "sm_30"))
    assert done.returncode == 1 and "sm_30 is too old" in done.stderr


# ---- what does not build is told at the author's line ----


def refused(path: Path, *flags: str) -> str:
    done = build(path, output=path.with_suffix(".so"), flags=("-q", "--arch", "sm_80", *flags))
    assert done.returncode == 1
    return done.stderr.removeprefix("wick build: ")


LAUNCHES = {
    "too few": ("x, by, y, N);", "x, by, y);"),
    "too many": ("x, by, y, N);", "x, by, y, N, N);"),
    "another order": ("x, by, y, N);", "by, x, y, N);"),
    "a number for a pointer": ("x, by, y, N);", "x, by, N, N);"),
    "no block": ("wick_1d(256), 0,", "0,"),
    "a plain number as grid": ("wick_1d(wick_ceil_div(N, 256))", "N"),
}


@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang", "clang-14") if shutil.which(c)])
@pytest.mark.parametrize("what", LAUNCHES)
def test_a_launch_that_does_not_fit_its_kernel(
    what: str, compiler: str, device_compiler: None, tmp_path: Path
) -> None:
    name, path = kernel(tmp_path, COPY_KERNEL.replace(*LAUNCHES[what]))
    message = refused(path, "--cc", compiler)
    assert message.startswith(f"{path}:17:"), message
    assert f"{name}_kernel(const T *x, A by, T *y, int64_t N)" in message, message
    assert "wick_launch_" not in message, message


def test_a_launch_of_a_kernel_that_is_not_there(device_compiler: None, tmp_path: Path) -> None:
    name, path = kernel(tmp_path, COPY_KERNEL.replace("LAUNCH(ctx, OP_kernel", "LAUNCH(ctx, other"))
    message = refused(path)
    assert message.startswith(f"{path}:17:") and "there is no kernel other in this file" in message


def test_an_error_in_a_kernel(device_compiler: None, tmp_path: Path) -> None:
    _, path = kernel(tmp_path, COPY_KERNEL.replace("* by);\n}\nWICK", "* bye);\n}\nWICK"))
    message = refused(path)
    assert message.startswith(f'{path}:13: error: identifier "bye" is undefined'), message
    assert "y[i] = wick_T(wick_A(x[i]) * bye);" in message


def test_an_error_in_one_type_alone(device_compiler: None, tmp_path: Path) -> None:
    _, path = kernel(tmp_path, COPY_KERNEL.replace("by, T *y, int64_t N)\n{\n    for", "by, T *y, int64_t N)\n{\n    T one = 1; (void)one; for"))  # fmt: skip
    message = refused(path)
    assert message.startswith(f"{path}:12:"), message
    assert "f16" in message or "wick_f16" in message


def test_an_error_in_a_header_of_kernels(device_compiler: None, tmp_path: Path) -> None:
    (tmp_path / "gates.h").write_text(
        "#ifdef __CUDACC__\nstatic __device__ int f() { return z; }\n#endif\n"
    )
    _, path = kernel(tmp_path, '#include "gates.h"\n' + COPY_KERNEL)
    message = refused(path)
    assert message.startswith(f"{path}:1: in {tmp_path}/gates.h:2: error"), message


def test_warnings_of_kernels_are_shown(device_compiler: None, tmp_path: Path) -> None:
    _, path = kernel(tmp_path, COPY_KERNEL.replace("* by);\n}\nWICK", "* by / 0);\n}\nWICK"))
    done = build(path, output=tmp_path / "op.so", flags=("--arch", "sm_80-PTX"))
    assert done.returncode == 0
    assert done.stderr.count(f"{path}:13: warning #39-D: division by zero") == 1, "once"


def test_flags_of_the_device_compiler(nvrtc: None, tmp_path: Path) -> None:
    _, path = kernel(tmp_path, COPY_KERNEL.replace("* by);\n}\nWICK", "* by + EXTRA);\n}\nWICK"))
    assert f"{path}:13: error" in refused(path)
    done = build(path, output=tmp_path / "op.so", flags=("--cuda-flag=-DEXTRA=1", "--arch=sm_80"))
    assert done.returncode == 0, done.stderr
    assert "unrecognized option" in refused(path, "--cuda-flag=--no-such-flag")


# ---- wick.load ----

FAKE_NVML = """
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { *out = (void *)1; return (int)i; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor)
{ (void)d; *major = 8; *minor = 0; return 0; }
"""
"""Says that there is a GPU of sm_80, which is all that wick.load asks before a kernel is launched."""


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """wick.load takes this machine for one with a GPU: kernels are compiled when they are loaded."""
    source, library = tmp_path / "nvml.c", tmp_path / "libnvml.so"
    source.write_text(FAKE_NVML)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("WICK_NVML", str(library))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_file_with_kernels_is_loaded_where_there_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither NVRTC nor CUDA is looked for."""
    monkeypatch.setenv("WICK_NVRTC", "/nowhere/libnvrtc.so")
    monkeypatch.setenv("WICK_CUDA_COMPILER", "nvrtc")
    monkeypatch.setenv("WICK_NVML", "/nowhere/libnvidia-ml.so")
    name, path = kernel(tmp_path)
    operator = getattr(wick.load(path, types="all"), name)
    assert operator(torch.ones(3), 2.0).tolist() == [2.0, 2.0, 2.0]
    assert operator(torch.ones(2, dtype=torch.float16), 3.0).tolist() == [3.0, 3.0]


def test_loading_starts_no_cuda(nvrtc: None, gpu: None, tmp_path: Path) -> None:
    """Not even where there is a GPU: the process may still fork."""
    name, path = kernel(tmp_path)
    code = f"""
import wick, torch
op = wick.load({str(path)!r}).{name}
op(torch.ones(3), 2.0)
assert not torch.cuda.is_initialized()
maps = open("/proc/self/maps").read()
print("nvrtc" in maps, "libcuda.so" in maps)
"""
    assert run_python(code, WICK_CACHE_DIR=str(tmp_path / "cache")) == "True False\n"


def test_a_kernel_that_does_not_compile_is_known_at_load(
    nvrtc: None, gpu: None, tmp_path: Path
) -> None:
    _, path = kernel(tmp_path, COPY_KERNEL.replace("* by);\n}\nWICK", "* bye);\n}\nWICK"))
    with pytest.raises(wick.BuildError, match="identifier") as e:
        wick.load(path)
    assert str(e.value).startswith(f"{path}:13: error:")


def test_a_gpu_without_nvrtc_does_not_keep_the_cpu_half_from_loading(
    gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WICK_NVRTC", "/nowhere/libnvrtc.so")
    monkeypatch.setenv("WICK_CUDA_COMPILER", "nvrtc")
    name, path = kernel(tmp_path)
    code = f"import wick, torch; print(wick.load({str(path)!r}).{name}(torch.ones(1), 2.0).item())"
    assert run_python(code, WICK_CACHE_DIR=str(tmp_path / "cache")) == "2.0\n"


def cubins(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.cubin"))


def test_a_kernel_is_compiled_once_and_again_when_it_is_edited(
    nvrtc: None, gpu: None, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    name, path = kernel(tmp_path)

    def load() -> wick.Loaded:
        return wick.load(path, build_directory=folder)

    first = load()
    assert load() is first and cubins(folder) == 1
    text = path.read_text()
    path.write_text(text.replace("wick_A(x[i]) * by", "by * wick_A(x[i])"))
    second = load()
    assert second is not first and cubins(folder) == 2, "only the kernel was edited"
    path.write_text(text)
    assert cubins(folder) == 2 and load() is not second and cubins(folder) == 2, "as it was"


def test_a_header_of_kernels_alone_is_edited(nvrtc: None, gpu: None, tmp_path: Path) -> None:
    folder, inner = tmp_path / "cache", tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "gates.h").write_text('#ifdef __CUDACC__\n#include "inner/deep.h"\n#endif\n')
    (inner / "deep.h").write_text("static __device__ float gate(float v) { return v + 1; }\n")
    text = '#include "gates.h"\n' + COPY_KERNEL.replace(
        "* by);\n}\nWICK", "* (A)gate(by));\n}\nWICK"
    )
    name, path = kernel(tmp_path, text)
    first = wick.load(path, build_directory=folder)
    assert wick.load(path, build_directory=folder) is first and cubins(folder) == 1
    (inner / "deep.h").write_text("static __device__ float gate(float v) { return v + 2; }\n")
    assert wick.load(path, build_directory=folder) is not first and cubins(folder) == 2


def test_flags_for_kernels_are_part_of_what_is_cached(
    nvrtc: None, gpu: None, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    name, path = kernel(tmp_path)

    def load(*flags: str, **more: object) -> wick.Loaded:
        return wick.load(path, build_directory=folder, extra_cuda_cflags=flags, **more)

    first = load()
    other = load("-O3", "-maxrregcount=32", "-gencode", "arch=compute_70,code=sm_70")
    assert other is not first and cubins(folder) == 2, "what is nvcc's alone is passed over"
    load()
    assert cubins(folder) == 2
    load(flags=["-DANYTHING"])
    assert cubins(folder) == 3
    with pytest.raises(wick.BuildError, match="unrecognized option --no-such-flag"):
        load("--no-such-flag")
    with pytest.raises(TypeError, match="extra_cuda_cflags is a str"):
        wick.load(path, extra_cuda_cflags="-O3")


def test_the_cuda_half_may_be_left_out(nvrtc: None, gpu: None, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    name, path = kernel(tmp_path, COPY_KERNEL.replace("* by);\n}\nWICK", "* bye);\n}\nWICK"))
    loaded = wick.load(path, build_directory=folder, with_cuda=False)
    assert getattr(loaded, name)(torch.ones(1), 2.0).item() == 2.0
    assert cubins(folder) == 0
    with pytest.raises(wick.BuildError):
        wick.load(path, build_directory=folder, with_cuda=True)


# ---- existing files with <<<>>> ----

FOREIGN = """\
#include <vector>
WICK_OP(OP, "x: f32[*N] -> y: f32[*N]");
template <typename U> struct Twice { __device__ U operator()(U v) const { return v + v; } };
namespace {
template <typename U, typename F = Twice<U>> __global__ void map(const U *x, U *y, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = F()(x[i]);
}
}  // namespace
extern "C" int OP_launch(const float *x, float *y, int64_t n, cudaStream_t stream)
{
    std::vector<int> blocks(1, (int)((n + 255) / 256));
    map<float><<<blocks[0], 256, 0, stream>>>(x, y, n);
    return (int)cudaGetLastError();
}
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    int error = N ? OP_launch(x, y, N, wick_stream(ctx)) : 0;
    return error ? wick_fail(ctx, WICK_ECUDA, "map failed with %d", error) : WICK_OK;
}
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] + x[i];
    return WICK_OK;
}
"""


def test_a_file_that_launches_by_itself(nvcc: None, tmp_path: Path) -> None:
    name, path = kernel(tmp_path, FOREIGN, ".cu")
    module = built(path, WICK_CUDA_ARCHS="80")
    assert variants(module)[0].cuda and not variants(module)[0].device
    needed = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    assert not re.search("cuda|torch|python", needed), "the runtime is linked in"
    operator = getattr(wick.load(module), name)
    assert operator(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_file_that_launches_by_itself_is_loaded_as_a_source(nvcc: None, tmp_path: Path) -> None:
    name, path = kernel(tmp_path, FOREIGN, ".cu")
    operator = getattr(wick.load(path), name)
    assert operator(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    path.write_text(path.read_text().replace("y[i] = F()(x[i]);", "y[i] = F()(x[j]);"))
    with pytest.raises(wick.BuildError) as e:
        wick.load(path)
    assert str(e.value).startswith(f'{path}:9: error: identifier "j" is undefined'), str(e.value)


def test_such_a_file_without_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU and without nvcc its CPU half is loaded; a module of it cannot be built."""
    name, path = kernel(tmp_path, FOREIGN, ".cu")
    environment = {"WICK_CUDA_COMPILER": "/nowhere/nvcc", "WICK_NVML": "/nowhere/libnvml.so"}
    code = f"import wick, torch; print(wick.load({str(path)!r}).{name}(torch.ones(1)).item())"
    assert run_python(code, **environment) == "2.0\n"
    done = build(path, output=tmp_path / "op.so", **environment)
    assert done.returncode == 1 and f"{path}:6: a launch with <<<>>> needs nvcc" in done.stderr


# ---- the form in which the first operators were designed: both halves behind one guard ----

GUARDED = """\
WICK_OP(OP, "x: T[N, C], bias: T[C], scale: float -> y: T[N, C] where T: f32 f16 bf16");
WICK_FN T mixed(T x, T bias, A scale)
{
    A v = scale * wick_A(x) + wick_A(bias);
    return wick_T(v < 0 ? 0 : v);
}
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale, T *y,
                             int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++)
        y[i] = mixed(x[i], bias[i % C], (A)scale);
    return WICK_OK;
}
#ifdef __CUDACC__
enum { THREADS = 256, MAX_GRID_Y = 65535 };
static __device__ __forceinline__ void down(const T *x, const T *bias, A scale, T *y, int64_t N,
                                            int64_t C, int vec)
{
    int64_t c = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * vec;
    int64_t n = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    T b[WICK_PACK], v[WICK_PACK];
    if (c >= C) return;
    wick_load(b, bias + c, vec);
    for (; n < N; n += (int64_t)gridDim.y * blockDim.y) {
        wick_load(v, x + n * C + c, vec);
        for (int k = 0; k < vec; k++)
            v[k] = mixed(v[k], b[k], scale);
        wick_store(y + n * C + c, v, vec);
    }
}
static __global__ void OP_packed(const T *x, const T *bias, A scale, T *y, int64_t N, int64_t C)
{
    down(x, bias, scale, y, N, C, WICK_PACK);
}
static __global__ void OP_scalar(const T *x, const T *bias, A scale, T *y, int64_t N, int64_t C)
{
    down(x, bias, scale, y, N, C, 1);
}
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const T *x, const T *bias, double scale, T *y,
                              int64_t N, int64_t C)
{
    int64_t width = 1;
    bool packed = C % WICK_PACK == 0 && wick_aligned16(x) && wick_aligned16(bias) && wick_aligned16(y);
    int64_t cols = packed ? C / WICK_PACK : C;
    while (width < THREADS && width < cols)
        width *= 2;
    wick_dim3 block = wick_2d(width, THREADS / width);
    wick_dim3 grid = wick_2d(wick_ceil_div(cols, width),
                             wick_min(wick_ceil_div(N, block.y), MAX_GRID_Y));
    if (packed) return WICK_LAUNCH(ctx, OP_packed, grid, block, 0, x, bias, scale, y, N, C);
    return WICK_LAUNCH(ctx, OP_scalar, grid, block, 0, x, bias, scale, y, N, C);
}
#endif /* __CUDACC__ */
"""


def test_a_file_whose_cuda_half_is_behind_a_guard(device_compiler: None, tmp_path: Path) -> None:
    name, path = kernel(tmp_path, GUARDED, ".cu")
    done = build(path, output=tmp_path / "op.so", flags=("-q", "--arch", ARCHS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [arch for arch, _, _ in codes(tmp_path / "op.so")] == [75, 80, 90, 100, 100]
    operator = getattr(wick.load(path), name)
    x = torch.tensor([[-2.0, 3.0]])
    assert operator(x, torch.ones(2), 2.0).tolist() == [[0.0, 7.0]]
