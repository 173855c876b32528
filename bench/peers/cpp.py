"""cpp -- torch.utils.cpp_extension: the same operators in C++, registered unboxed with
TORCH_LIBRARY.

They check what Wick checks of them (element type), take any layout and count versions of what
they write, as an operator must. `plusone` is what most people write; `plusone_lean` allocates by
the shortest way that ATen has, past the dispatcher, and is the harder one to keep up with.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from typing import Any

SCALE = """
#include <torch/library.h>
#include <ATen/ATen.h>
static at::Tensor scale(const at::Tensor &x, double by) {
    TORCH_CHECK(x.scalar_type() == at::kFloat, "scale: x is not f32");
    const at::Tensor in = x.contiguous();
    at::Tensor y = at::empty_like(in);
    const float *from = in.const_data_ptr<float>();
    float *to = y.mutable_data_ptr<float>();
    const float f = static_cast<float>(by);
    for (int64_t i = 0, n = in.numel(); i < n; i++) to[i] = from[i] * f;
    return y;
}
TORCH_LIBRARY(wick_bench_scale, m) { m.def("scale(Tensor x, float by) -> Tensor"); }
TORCH_LIBRARY_IMPL(wick_bench_scale, CPU, m) { m.impl("scale", &scale); }
"""

CALLS = """
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
static void written(const at::Tensor &x) {
    if (!x.is_inference()) x.unsafeGetTensorImpl()->bump_version();
}
static at::Tensor plusone_lean(const at::Tensor &x) {
    TORCH_CHECK(x.scalar_type() == at::kFloat, "plusone_lean: x is not f32");
    const at::Tensor in = x.contiguous();
    at::Tensor y = at::detail::empty_cpu(in.sizes(), in.options());
    const float *from = in.const_data_ptr<float>();
    float *to = y.mutable_data_ptr<float>();
    for (int64_t i = 0, n = in.numel(); i < n; i++) to[i] = from[i] + 1;
    return y;
}
static at::Tensor plusone(const at::Tensor &x) {
    TORCH_CHECK(x.scalar_type() == at::kFloat, "plusone: x is not f32");
    const at::Tensor in = x.contiguous();
    at::Tensor y = at::empty_like(in);
    const float *from = in.const_data_ptr<float>();
    float *to = y.mutable_data_ptr<float>();
    for (int64_t i = 0, n = in.numel(); i < n; i++) to[i] = from[i] + 1;
    return y;
}
static void inc(at::Tensor &x) {
    TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous(), "inc: x does not fit");
    float *p = x.mutable_data_ptr<float>();
    for (int64_t i = 0, n = x.numel(); i < n; i++) p[i] += 1;
    written(x);
}
static void accumulate(const at::Tensor &x, at::Tensor &y) {
    TORCH_CHECK(x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat
                && x.sizes() == y.sizes() && y.is_contiguous(), "accumulate: x, y do not fit");
    const at::Tensor in = x.contiguous();
    const float *from = in.const_data_ptr<float>();
    float *to = y.mutable_data_ptr<float>();
    for (int64_t i = 0, n = in.numel(); i < n; i++) to[i] += from[i];
    written(y);
}
TORCH_LIBRARY(wick_bench_cpp, m) {
    m.def("plusone(Tensor x) -> Tensor");
    m.def("plusone_lean(Tensor x) -> Tensor");
    m.def("inc(Tensor(a!) x) -> ()");
    m.def("accumulate(Tensor x, Tensor(a!) y) -> ()");
}
TORCH_LIBRARY_IMPL(wick_bench_cpp, CPU, m) {
    m.impl("plusone", &plusone);
    m.impl("plusone_lean", &plusone_lean);
    m.impl("inc", &inc);
    m.impl("accumulate", &accumulate);
}
"""

_LIBRARY = "wick_bench_cpp.so"


def missing() -> str | None:
    beside = os.path.dirname(sys.executable)
    if not shutil.which("ninja", path=os.pathsep.join([beside, os.environ.get("PATH", "")])):
        return "needs ninja: pip install ninja"
    return None if shutil.which(os.environ.get("CXX", "c++")) else "needs a C++ compiler"


def _build(name: str, source: str, folder: str) -> None:
    # ninja may be installed beside this Python and nowhere else.
    os.environ["PATH"] = os.pathsep.join(
        [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    )
    from torch.utils.cpp_extension import load_inline

    load_inline(
        name,
        source,
        extra_cflags=["-O3"],
        build_directory=folder,
        is_python_module=False,
        no_implicit_headers=True,
    )


def build_scale(folder: str, nonce: str) -> None:
    """The operator of bench/build_time.py, from text to loaded."""
    _build("wick_bench_scale", f"// {nonce}\n{SCALE}", folder)


def _folder(cache: str) -> str:
    """Named after the text, so that an edit of it is built anew."""
    return os.path.join(cache, "cpp-" + hashlib.sha256(CALLS.encode()).hexdigest()[:12])


def is_built(cache: str) -> bool:
    return os.path.exists(os.path.join(_folder(cache), _LIBRARY))


def calls(cache: str) -> Any:
    """The operators of bench/call_time.py; built once, then kept in `cache`."""
    import torch

    folder = _folder(cache)
    if is_built(cache):
        torch.ops.load_library(os.path.join(folder, _LIBRARY))
    else:
        os.makedirs(folder, exist_ok=True)
        _build("wick_bench_cpp", CALLS, folder)
    return torch.ops.wick_bench_cpp
