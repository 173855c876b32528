"""gpu -- the NVIDIA driver, the GPUs, and whether torch, NVRTC and nvcc fit them

A machine without a GPU is in order; nothing here is a problem there.
"""

from __future__ import annotations

import ctypes.util
import glob
import os
import re

from .findings import Finding, ok, problem, warning
from .machine import Machine, first_line, numbers, run

VERSION_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
WHEELS = ((13, 0), (12, 8), (12, 6))
"""CUDA versions that torch has wheels for, newest first."""


def _devices(m: Machine) -> list[dict]:
    return m.devices.get("devices", [])


def _torch_for(m: Machine) -> str:
    """How to get a torch that this driver can run."""
    driver = tuple(m.driver.get("cuda", WHEELS[0]))
    fits = next((w for w in WHEELS if w[0] < driver[0] or w <= driver), WHEELS[-1])
    build = f"cu{fits[0]}{fits[1]}"
    return f"{m.pip} install --force-reinstall 'torch>=2.10'  # the {build} build: torch's install page has its index"


def check_driver(m: Machine) -> list[Finding]:
    if m.devices.get("status") == VERSION_MISMATCH:
        text = "the NVIDIA driver was updated while in use: library and kernel module differ"
        return [problem("driver-mismatch", text, "sudo reboot")]
    if "error" in m.driver:
        if m.driver.get("crash"):
            text = f"asking the NVIDIA driver crashes ({m.driver['crash']})"
            return [problem("driver-broken", text, "sudo reboot", m.driver["error"])]
        if os.path.exists("/dev/nvidia0"):
            text = "/dev/nvidia0 is there, but libcuda.so.1 is not: a container without the driver"
            return [problem("driver-library", text, "docker run --gpus all ...", m.driver["error"])]
        if m.pci_gpu:
            return [
                warning(
                    "driver-missing",
                    "there is an NVIDIA GPU, but no driver can be reached",
                    "sudo apt install nvidia-driver-580    # in a container: docker run --gpus all",
                )
            ]
        return [ok("driver", "no NVIDIA driver, which a machine without a GPU does not need")]
    version = ".".join(map(str, m.driver["cuda"]))
    name = m.devices.get("driver") or "of unknown version"
    return _driver_and_torch(m) or [ok("driver", f"driver {name}, up to CUDA {version}")]


def _driver_and_torch(m: Machine) -> list[Finding]:
    wanted = m.torch.get("cuda")
    has = m.driver["cuda"]
    if not wanted or numbers(wanted)[0] <= has[0]:
        return []  # within a major version, older drivers run newer programs
    text = (
        f"torch is built for CUDA {wanted}, the driver goes up to CUDA {has[0]}.{has[1]}: "
        "torch cannot use the GPU"
    )
    return [problem("driver-old", text, _torch_for(m) + "    # or update the driver")]


def check_gpu(m: Machine) -> list[Finding]:
    devices = _devices(m)
    if not devices:
        return [ok("gpu", "no NVIDIA GPU: operators run on the CPU")]
    names = ", ".join(f"{d['name']} (sm_{d['capability'][0]}{d['capability'][1]})" for d in devices)
    if "error" in m.torch:
        return [ok("gpu", names)]
    if not m.torch.get("cuda"):
        text = f"{names}, but torch {m.torch['version']} is not a CUDA build"
        return [warning("gpu-unused", text, _torch_for(m))]
    if m.torch.get("available"):
        return [ok("gpu", f"{names}, usable by torch")]
    visible = m.env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        text = f'{names}, hidden from torch by CUDA_VISIBLE_DEVICES="{visible}"'
        return [warning("gpu-hidden", text, "unset CUDA_VISIBLE_DEVICES")]
    if _driver_and_torch(m) if "cuda" in m.driver else False:
        return []  # driver-old says it
    text = f"{names}, but torch.cuda.is_available() is False"
    return [
        problem("gpu-unavailable", text, f'{m.python} -c "import torch; torch.zeros(1).cuda()"')
    ]


def check_architectures(m: Machine) -> list[Finding]:
    listed = m.torch.get("architectures") or []
    if not _devices(m) or not listed:
        return []
    for device in _devices(m):
        if not any(_runs_on(entry, device["capability"]) for entry in listed):
            major, minor = device["capability"]
            text = (
                f"{device['name']} is sm_{major}{minor}, and this torch has code for "
                f"{' '.join(listed)}: its kernels do not start there"
            )
            return [problem("gpu-architecture", text, _torch_for(m))]
    return [ok("architectures", f"torch has code for these GPUs ({' '.join(listed)})")]


def _runs_on(entry: str, capability: list[int]) -> bool:
    """sm_86 runs on 8.6 and 8.9; compute_90 (PTX) on all from 9.0 on; sm_90a on 9.0 alone."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", entry)
    if not match:
        return False
    own = [int(match[2]), int(match[3])]
    if match[4] == "a":
        return own == capability
    if match[1] == "compute":
        return own <= capability
    return own[0] == capability[0] and own[1] <= capability[1]


# ---- NVRTC and nvcc ----


def _toolkits(m: Machine) -> list[str]:
    named = [m.env.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    return [f for f in [*named, "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"))] if f]


def find_nvrtc(m: Machine) -> str | None:
    """Beside torch, in NVIDIA's wheels, in a CUDA toolkit, or where the linker looks."""
    patterns = []
    if m.torch.get("file"):
        torch = os.path.dirname(m.torch["file"])
        site = os.path.dirname(torch)
        patterns = [f"{torch}/lib/libnvrtc*.so*", f"{site}/nvidia/*/lib/libnvrtc*.so*"]
    site = os.path.dirname(m.package)
    patterns.append(f"{site}/nvidia/*/lib/libnvrtc*.so*")
    patterns += [f"{folder}/lib64/libnvrtc.so*" for folder in _toolkits(m)]
    for pattern in patterns:
        found = [f for f in sorted(glob.glob(pattern)) if not re.search(r"builtins|\.alt\.", f)]
        if found:
            return found[0]
    return ctypes.util.find_library("nvrtc")


def find_nvcc(m: Machine) -> str | None:
    """As src/build/nvcc.c does: WICK_CUDA_COMPILER may name it."""
    named = m.env.get("WICK_CUDA_COMPILER", "")
    if named not in ("", "nvcc", "nvrtc"):
        return m.which(named)
    beside = (os.path.join(folder, "bin", "nvcc") for folder in _toolkits(m))
    return m.which("nvcc") or next((path for path in beside if os.access(path, os.X_OK)), None)


def check_nvrtc(m: Machine) -> list[Finding]:
    given = m.env.get("WICK_NVRTC", "")
    if given and not os.path.exists(given):
        text = f"WICK_NVRTC is {given}, which is not there: no kernel can be compiled"
        return [problem("nvrtc-setting", text, "unset WICK_NVRTC")]
    found = given or find_nvrtc(m)
    if found:
        return _nvrtc_and_driver(m, found) or [
            ok("nvrtc", "NVRTC, the compiler of kernels, is there", found)
        ]
    if find_nvcc(m):
        return [ok("nvrtc", "no NVRTC: kernels are compiled by nvcc, which takes longer")]
    if not m.torch.get("cuda") and not _devices(m):
        return [ok("nvrtc", "no NVRTC, which only the kernels of CUDA operators need")]
    major = numbers(m.torch.get("cuda") or "13.0")[0]
    wheel = "nvidia-cuda-nvrtc" if major >= 13 else f"nvidia-cuda-nvrtc-cu{major}"
    text = "there is neither NVRTC nor nvcc: kernels that are not compiled yet cannot be"
    return [warning("nvrtc-missing", text, f"{m.pip} install {wheel}")]


def _nvrtc_and_driver(m: Machine, path: str) -> list[Finding]:
    """A driver takes machine code of its own major version of CUDA and of those before."""
    version = re.search(r"\.so\.(\d+)", os.path.basename(os.path.realpath(path)))
    driver = m.driver.get("cuda")
    if not version or not driver or int(version[1]) <= driver[0]:
        return []
    text = (
        f"NVRTC is of CUDA {version[1]}, the driver goes up to CUDA {driver[0]}.{driver[1]}: "
        "it may refuse what NVRTC makes"
    )
    remedy = f"{m.pip} install nvidia-cuda-nvrtc-cu{driver[0]}    # or update the driver"
    return [warning("nvrtc-new", text, remedy, path)]


def check_nvcc(m: Machine) -> list[Finding]:
    found: list[Finding] = []
    home = m.env.get("CUDA_HOME", "")
    if home and not os.path.exists(os.path.join(home, "bin", "nvcc")):
        text = f"CUDA_HOME is {home}, where there is no bin/nvcc"
        found.append(warning("nvcc-home", text, "unset CUDA_HOME"))
    nvcc = find_nvcc(m)
    named = m.env.get("WICK_CUDA_COMPILER", "")
    if not nvcc and named not in ("", "nvrtc"):
        text = f"WICK_CUDA_COMPILER is {named}, which cannot be run: no kernel can be compiled"
        return [*found, problem("nvcc-setting", text, "unset WICK_CUDA_COMPILER")]
    if not nvcc:
        return [*found, ok("nvcc", "no nvcc, which only files that launch with <<<>>> need")]
    code, out, err = run([nvcc, "--version"], m.env, timeout=30)
    release = re.search(r"release (\d+\.\d+)", out)
    if code or not release:
        text = f"{nvcc} does not say its version: {first_line(err) or f'exit code {code}'}"
        return [*found, warning("nvcc-broken", text, f"{nvcc} --version")]
    wanted = m.torch.get("cuda")
    if wanted and numbers(release[1])[0] != numbers(wanted)[0]:
        text = (
            f"nvcc is of CUDA {release[1]}, torch of CUDA {wanted}: Wick does not mind, "
            "torch.utils.cpp_extension refuses to build"
        )
        remedy = f"export CUDA_HOME=/usr/local/cuda-{wanted}    # if that toolkit is installed"
        return [*found, warning("nvcc-version", text, remedy, nvcc)]
    text = f"nvcc of CUDA {release[1]}, for files that launch with <<<>>>"
    return [*found, ok("nvcc", text, nvcc)]
