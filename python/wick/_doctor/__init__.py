"""The checks of `wick doctor`: small functions of a Machine, each returning findings.

    findings.py     what a finding is
    machine.py      facts: the environment, the compiler, what other processes report
    child.py        the process that imports torch and builds an operator, and may crash doing so
    build.py        compiler, build, flags, temporary folder
    torches.py      Python, torch, the package, direct calls, threads
    gpu.py          driver, GPUs, architectures, NVRTC, nvcc
    install.py      the command and the package, the cache
    system.py       C library, limits, /proc

Nothing here imports torch or the rest of wick: the doctor is for the day when they do not import.
"""

from . import build, gpu, install, system, torches

CHECKS = {
    "python": torches.check_python,
    "libc": system.check_libc,
    "compiler": build.check_compiler,
    "flags": build.check_flags,
    "preload": build.check_preload,
    "tmp": build.check_tmp,
    "torch": torches.check_torch,
    "package": torches.check_package,
    "build": build.check_build,
    "calls": torches.check_calls,
    "threads": torches.check_threads,
    "driver": gpu.check_driver,
    "gpu": gpu.check_gpu,
    "architectures": gpu.check_architectures,
    "nvrtc": gpu.check_nvrtc,
    "nvcc": gpu.check_nvcc,
    "command": install.check_command,
    "cache": install.check_cache,
    "entries": install.check_entries,
    "limits": system.check_limits,
    "memory": system.check_memory,
    "proc": system.check_proc,
}
"""Every check by its name, in the order in which their findings are read."""
