"""cuda_time -- what a CUDA operator costs before its kernel runs: the load, the launch and the call.

    python bench/cuda_time.py [--save] [--peers] [--rounds N]

Needs a GPU. Loads are in fresh processes that have imported torch and wick and made a CUDA tensor
before the clock starts, each with a cache of its own; cold is the load, the first call and the wait
for its result. A launch is compared with cuLaunchKernel on the same kernel, called from the same C
loop. With --peers the same operator is built once by torch.utils.cpp_extension (a minute).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
import torch
from measure import Row, compare, limit

import wick

OPERATOR = """/* {nonce} */
#include <wick/op.h>

WICK_OP(bench_scale, "x: T[*N], by: float -> y: T[*N] where T: f16 bf16 f32 f64");

static __global__ void scale_kernel(const T *x, A by, T *y, int64_t N)
{{
    for (int64_t i = wick_thread(); i < N; i += wick_threads())
        y[i] = wick_T(wick_A(x[i]) * by);
}}

WICK_IMPL wick_status bench_scale_cuda(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{{
    return WICK_LAUNCH(ctx, scale_kernel, wick_1d(wick_ceil_div(N, 256)), wick_1d(256), 0, x, by, y, N);
}}
"""

# The bare peer is given as addresses: cuLaunchKernel, and the same kernel loaded by hand.
LAUNCHES = """
#include <wick/op.h>

WICK_OP(bench_launches, "x!: f32[N], count: int, launch: int, function: int -> ()");

typedef int (*launcher)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        void *, void **, void **);

static __global__ void nothing_kernel(float *x, int64_t N) { if (N < 0) x[0] = 0; }

WICK_IMPL wick_status bench_launches_cuda(wick_ctx *ctx, float *x, int64_t count, int64_t launch,
                                          int64_t function, int64_t N)
{
    for (int64_t i = 0; i < count; i++) {
        if (launch) {
            void *args[] = {&x, &N};
            int error = ((launcher)launch)((void *)function, 1, 1, 1, 32, 1, 1, 0, wick_stream(ctx),
                                           args, 0);
            if (error) return wick_fail(ctx, WICK_ECUDA, "cuLaunchKernel: %d", error);
        } else {
            wick_status status = WICK_LAUNCH(ctx, nothing_kernel, wick_1d(1), wick_1d(32), 0, x, N);
            if (status) return status;
        }
    }
    return WICK_OK;
}
"""

LOAD = """
import sys, time, torch, wick
x = torch.ones(8, device="cuda")
torch.cuda.synchronize()
t = time.perf_counter()
y = wick.load(sys.argv[1]).bench_scale(x, 2.0)
torch.cuda.synchronize()
print(time.perf_counter() - t)
assert y.tolist() == [2.0] * 8
"""

PEER = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
__global__ void scale_kernel(const float *x, float by, float *y, int64_t N)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = x[i] * by;
}
torch::Tensor scale(torch::Tensor x, double by)
{
    auto y = torch::empty_like(x);
    int64_t N = x.numel();
    scale_kernel<<<(N + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), by, y.data_ptr<float>(), N);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }
"""


def load_seconds(path: str, cache: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", LOAD, path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "WICK_CACHE_DIR": cache},
    )
    return float(done.stdout)


def load_rows(n: int) -> list[Row]:
    cold, warm = [], []
    with (
        tempfile.TemporaryDirectory(prefix="wick-bench-") as folder,
        measure.Progress("load time") as progress,
    ):
        for i in range(n):
            path, cache = os.path.join(folder, f"scale{i}.cu"), os.path.join(folder, f"cache{i}")
            with open(path, "w") as file:
                file.write(OPERATOR.format(nonce=time.time_ns()))
            cold.append(load_seconds(path, cache))
            warm.append(load_seconds(path, cache) * 1e3)
            progress.step(i + 1, n)
    return [
        limit("CUDA operator, cold load and first call", cold, 0.6, "s"),
        limit("CUDA operator, warm load and first call", warm, 20, "ms"),
    ]


def peer_row(ours: float) -> Row:
    from torch.utils import cpp_extension

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scale.cu")
        with open(path, "w") as file:
            file.write(PEER)
        start = time.perf_counter()
        module = cpp_extension.load("bench_scale_peer", [path], build_directory=folder)
        module.scale(torch.ones(8, device="cuda"), 2.0)
        torch.cuda.synchronize()
        theirs = time.perf_counter() - start
    return Row("the same operator", ours, "cpp_extension.load", theirs, ours / theirs, unit="s")


# ---- one launch ----


def bare_kernel() -> tuple[int, int]:
    """cuLaunchKernel's address, and the kernel's function, loaded by hand."""
    nvrtc = ctypes.CDLL("libnvrtc.so.13")  # torch has it loaded
    cuda = ctypes.CDLL("libcuda.so.1")
    text = b'extern "C" __global__ void nothing(float *x, long N) { if (N < 0) x[0] = 0; }'
    major, minor = torch.cuda.get_device_capability()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    flags = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{major}{minor}".encode())
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"nothing.cu", 0, None, None)
    assert nvrtc.nvrtcCompileProgram(program, 1, flags) == 0
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"nothing") == 0
    launch = ctypes.cast(cuda.cuLaunchKernel, ctypes.c_void_p).value
    return launch or 0, function.value or 0


def launch_row(n: int) -> Row:
    op = wick.load(source=LAUNCHES, name="bench_launches").bench_launches
    x = torch.zeros(4, device="cuda")
    launch, function = bare_kernel()
    count = 500  # below what the driver queues before it makes the caller wait
    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    for i in range(n + 3):
        for name, address in (("ours", 0), ("bare", launch)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            op(x, count, address, function)
            took = (time.perf_counter() - start) / count * 1e6
            if i >= 3:
                samples[name].append(took)
    return compare("launch alone", samples["ours"], "cuLaunchKernel", samples["bare"], at_most=1.2)


# ---- one call ----


def call_rows(n: int) -> list[Row]:
    x = torch.rand(1024, device="cuda")
    names = {"relu": torch.relu, "op": torch.ops.wick.relu.default, "direct": wick.ops.relu, "x": x}
    names["packet"] = torch.ops.wick.relu

    def timed(stmt: str):
        once = measure.call_seconds(stmt, names)

        def run(count: int) -> float:
            torch.cuda.synchronize()
            return once(min(count, 500))

        return run

    contenders = {k: timed(f"{k}(x)") for k in ("relu", "op", "packet", "direct")}
    with measure.Progress("host time") as progress:
        found = measure.rounds(contenders, n_rounds=n, sample_s=0.005, progress=progress)
    t = {k: [s * 1e6 for s in v] for k, v in found.items()}
    return [
        compare(
            "host time, torch.ops.wick.relu", t["packet"], "torch.relu", t["relu"], at_most=1.1
        ),
        compare("host time, ...relu.default", t["op"], "torch.relu", t["relu"]),
        compare("host time, wick.ops.relu", t["direct"], "torch.relu", t["relu"], at_most=0.8),
    ]


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="loads of each kind (5)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("cuda_time: there is no GPU that torch can use", file=sys.stderr)
        return 1
    rows = [*load_rows(options.rounds), launch_row(200), *call_rows(200)]
    if options.peers:
        rows.append(peer_row(rows[0].ours or 0))
    gpu = torch.cuda.get_device_name()
    measure.print_table(f"CUDA, before the kernel runs ({gpu}, torch {torch.__version__})", rows)
    if options.save:
        measure.save("cuda_time", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
