"""tvm -- tvm-ffi: C++ functions over DLPack tensors, without torch's dispatcher. Measured, never
required.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

SCALE = """
void scale(tvm::ffi::TensorView x, double by, tvm::ffi::TensorView y) {
    const float *from = static_cast<const float *>(x.data_ptr());
    float *to = static_cast<float *>(y.data_ptr());
    const float f = static_cast<float>(by);
    for (int64_t i = 0; i < x.size(0); i++) to[i] = from[i] * f;
}
"""

CALLS = """
int64_t addone(int64_t x) { return x + 1; }
void inc(tvm::ffi::TensorView x) {
    float *p = static_cast<float *>(x.data_ptr());
    for (int64_t i = 0; i < x.size(0); i++) p[i] += 1;
}
void accumulate(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
    const float *from = static_cast<const float *>(x.data_ptr());
    float *to = static_cast<float *>(y.data_ptr());
    for (int64_t i = 0; i < x.size(0); i++) to[i] += from[i];
}
"""


def missing() -> str | None:
    if importlib.util.find_spec("tvm_ffi") is None:
        return "not installed: pip install apache-tvm-ffi ninja"
    return None


def build_scale(folder: str, nonce: str) -> None:
    """The operator of bench/build_time.py, from text to loaded."""
    import tvm_ffi.cpp

    module = tvm_ffi.cpp.load_inline(
        "wick_bench_scale",
        cpp_sources=f"// {nonce}\n{SCALE}",
        functions=["scale"],
        build_directory=folder,
    )
    assert module.scale


def calls(cache: str) -> Any:
    """The operators of bench/call_time.py; built once, then kept in `cache`."""
    import tvm_ffi.cpp

    folder = os.path.join(cache, "tvm")
    os.makedirs(folder, exist_ok=True)
    return tvm_ffi.cpp.load_inline(
        "wick_bench_calls",
        cpp_sources=CALLS,
        functions=["addone", "inc", "accumulate"],
        extra_cflags=["-O3"],
        build_directory=folder,
    )
