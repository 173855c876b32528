"""child -- a process that tries things which may crash it, and reports each as a line of JSON

    child.py torch PACKAGE_FOLDER    imports torch and wick, builds an operator and calls it
    child.py core PACKAGE_FOLDER     loads the C core alone
    child.py gpu                     asks the NVIDIA driver

Before a step its name is reported, after it what was found: a step without an answer is the one
the process died in. Run by path, so that nothing of the wick package is imported before its turn.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import tempfile
import time
from typing import Any

SOURCE = """\
#include <wick/op.h>
WICK_OP(wick_doctor_twice, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status wick_doctor_twice_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] + x[i];
    return WICK_OK;
}
"""


def say(step: str, **facts: Any) -> None:
    # The real stdout: what is imported may print.
    os.write(_stdout, (json.dumps({"step": step, **facts}) + "\n").encode())


def attempt(step: str, what: Any) -> bool:
    """Runs a step; a failure is told and ends what depends on it."""
    say(step)
    try:
        say(step, **what())
        return True
    except BaseException as error:
        missing = getattr(error, "name", None) or ""
        say(step, error=f"{type(error).__name__}: {error}", missing=missing)
        return False


def try_core(package: str) -> dict[str, Any]:
    """The C core alone, which needs no torch: its version."""
    spec = importlib.util.spec_from_file_location("_wick", os.path.join(package, "_wick.abi3.so"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"version": module.__version__}


def loaded_library(name: str) -> str:
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return next((line.split()[-1] for line in maps if f"/{name}" in line), "")
    except OSError:
        return ""


def try_torch() -> dict[str, Any]:
    start = time.perf_counter()
    import torch

    facts: dict[str, Any] = {
        "version": str(torch.__version__),
        "file": torch.__file__,
        "seconds": time.perf_counter() - start,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "threads": torch.get_num_threads(),
        "libstdcxx": loaded_library("libstdc++.so"),
    }
    if facts["cuda"]:
        facts["architectures"] = torch.cuda.get_arch_list()
        facts["available"] = torch.cuda.is_available()
        if not facts["architectures"]:  # torch says so only where a device is usable
            facts["architectures"] = (torch._C._cuda_getArchFlags() or "").split()
    return facts


def try_package(package: str) -> dict[str, Any]:
    sys.path.insert(0, os.path.dirname(package))
    import wick

    return {
        "version": wick.__version__,
        "file": wick.__file__,
        "mode": wick._calls.mode,
        "learnt": wick._calls.learnt,
    }


def try_build() -> dict[str, Any]:
    """A build from nothing: with a cache folder of its own, which goes when the process does."""
    import torch

    import wick

    with tempfile.TemporaryDirectory(prefix="wick-doctor-") as folder:
        os.environ["WICK_CACHE_DIR"] = folder
        start = time.perf_counter()
        op = wick.load(source=SOURCE, name="wick_doctor.c")
        seconds = time.perf_counter() - start
        result = op.wick_doctor_twice(torch.ones(3)).tolist()
    if result != [2.0, 2.0, 2.0]:
        raise AssertionError(f"the operator returned {result} and not [2.0, 2.0, 2.0]")
    return {"seconds": seconds}


# ---- the driver ----


def try_driver() -> dict[str, Any]:
    cuda = ctypes.CDLL("libcuda.so.1")
    version = ctypes.c_int()
    status = cuda.cuDriverGetVersion(ctypes.byref(version))
    if status:
        raise RuntimeError(f"cuDriverGetVersion returned {status}")
    return {"cuda": [version.value // 1000, version.value % 1000 // 10]}


def try_devices() -> dict[str, Any]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    status = nvml.nvmlInit_v2()
    if status:
        return {"status": status, "devices": []}
    count, text = ctypes.c_uint(), ctypes.create_string_buffer(96)
    nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96))
    driver = text.value.decode()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    devices = []
    for i in range(count.value):
        handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(i), ctypes.byref(handle)):
            continue
        nvml.nvmlDeviceGetName(handle, text, ctypes.c_uint(96))
        nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        devices.append({"name": text.value.decode(), "capability": [major.value, minor.value]})
    nvml.nvmlShutdown()
    return {"status": 0, "driver": driver, "devices": devices}


def main(arguments: list[str]) -> int:
    if arguments[0] == "gpu":
        attempt("driver", try_driver)
        attempt("devices", try_devices)
        return 0
    package = arguments[1]
    if arguments[0] == "core":
        attempt("core", lambda: try_core(package))
    elif attempt("torch", try_torch) and attempt("package", lambda: try_package(package)):
        attempt("build", try_build)
    return 0


if __name__ == "__main__":
    _stdout = os.dup(1)
    os.dup2(2, 1)
    sys.path.pop(0)
    # The loaded modules' threads and destructors have nothing to add.
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
