"""torches -- Python, torch, the wick package and how its operators are called"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig

from .findings import Finding, ok, problem, unknown, warning
from .machine import Machine, first_line, numbers

OLDEST_TORCH = (2, 10)
OLDEST_PYTHON = (3, 10)
NEW_TORCH = "'torch>=2.10'"


def check_python(m: Machine) -> list[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        text = f"Python {version}: Wick needs 3.10 or newer"
        return [problem("python-old", text, "python3.12 -m venv ~/wick-env")]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return [
            problem(
                "python-free-threaded",
                f"Python {version} is a free-threaded build, which loads no abi3 extension",
                f"python{version.rsplit('.', 1)[0]} -m venv ~/wick-env    # the ordinary build",
            )
        ]
    if sys.maxsize < 2**32:
        text = f"Python {version} is a 32-bit program"
        return [problem("python-32-bit", text, "install a 64-bit Python")]
    return [ok("python", f"Python {version}; its C headers are not needed", sys.executable)]


# ---- torch ----


def check_torch(m: Machine) -> list[Finding]:
    facts = m.torch
    if "error" in facts:
        return [_torch_error(m, facts)]
    version = facts["version"]
    kind = _kind(facts)
    if not facts.get("file") or os.path.basename(facts["file"]) != "__init__.py":
        text = f"`import torch` finds {facts.get('file')}, which is not PyTorch"
        return [problem("torch-shadowed", text, "rename that file, or start Python elsewhere")]
    if numbers(version) < OLDEST_TORCH:
        return [
            problem(
                "torch-old",
                f"torch {version}: Wick needs 2.10 or newer, whose C interface it uses",
                f"{m.pip} install --upgrade {NEW_TORCH}",
                facts["file"],
            )
        ]
    detail = f"{facts['file']}, imported in {facts['seconds']:.1f} s"
    if facts.get("libstdcxx"):
        detail += f"; it uses {facts['libstdcxx']}, Wick's modules use no C++ library"
    return [ok("torch", f"torch {version}, {kind}", detail)]


def _kind(facts: dict) -> str:
    if facts.get("cuda"):
        return f"built for CUDA {facts['cuda']}"
    return f"built for ROCm {facts['hip']}" if facts.get("hip") else "a CPU build"


def _torch_error(m: Machine, facts: dict) -> Finding:
    error = facts["error"]
    again = f"{m.pip} install --force-reinstall {NEW_TORCH}"
    detail = error + "\n" + facts.get("said", "")
    if facts.get("missing") == "torch":
        text = f"no torch for {m.python}"
        return problem("torch-missing", text, f"{m.pip} install {NEW_TORCH}")
    if facts.get("crash"):
        text = f"importing torch crashes ({facts['crash']})"
        return problem("torch-crashes", text, again, detail)
    if "GLIBCXX_" in error or "CXXABI_" in error:
        text = f"torch needs a newer libstdc++ than the one found first: {first_line(error)}"
        return problem("libstdcxx-old", text, _newer_libstdcxx(m), detail)
    if "undefined symbol" in error:
        text = f"torch's libraries are of different builds: {first_line(error)}"
        return problem("torch-mixed", text, f"unset LD_LIBRARY_PATH; {again}", detail)
    if "cannot open shared object file" in error:
        text = f"a library of torch is missing: {first_line(error)}"
        return problem("torch-libraries", text, again, detail)
    if "has no attribute" in error:
        text = f"`import torch` finds something that is not PyTorch: {first_line(error)}"
        where = f'{m.python} -c "import torch; print(torch.__file__)"'
        return problem("torch-shadowed", text, where, detail)
    text = f"torch does not import: {first_line(error)}"
    return problem("torch-broken", text, again, detail)


def _newer_libstdcxx(m: Machine) -> str:
    if m.env.get("LD_LIBRARY_PATH"):
        return "unset LD_LIBRARY_PATH"
    if m.env.get("LD_PRELOAD"):
        return "unset LD_PRELOAD"
    if m.env.get("CONDA_PREFIX"):
        return "conda install -c conda-forge libstdcxx-ng"
    return m.install("libstdc++6")


# ---- the package ----


def check_package(m: Machine) -> list[Finding]:
    if "error" in m.torch:
        if "error" in m.core:
            return [_package_error(m, m.core)]
        version = m.core.get("version")
        return [ok("package", f"wick {version}, which imports once torch does", m.package)]
    if numbers(m.torch["version"]) < OLDEST_TORCH:
        return []  # torch-old says it
    if "error" in m.wick:
        return [_package_error(m, m.wick)]
    return [ok("package", f"wick {m.wick['version']}", m.wick["file"])]


def _package_error(m: Machine, facts: dict) -> Finding:
    return problem(
        "package-broken",
        f"wick does not import: {first_line(facts['error'])}",
        f"{m.pip} install --force-reinstall --no-deps torch-wick",
        facts["error"] + "\n" + facts.get("said", ""),
    )


def check_calls(m: Machine) -> list[Finding]:
    mode = m.wick.get("mode")
    if not mode:
        return []
    asked = m.env.get("WICK_DIRECT")
    if asked:
        text = f"wick.ops calls by way of {mode}, because WICK_DIRECT says so"
        return (
            [ok("calls", text)]
            if mode == "internals"
            else [warning("calls-slower", text, "unset WICK_DIRECT")]
        )
    if mode == "internals":
        asked_for = [
            p for p in ("layout", "memory", "versions", "devices") if p not in m.wick["learnt"]
        ]
        text = "wick.ops reads this torch's tensors directly, the fastest way"
        if asked_for:  # a few ns each: nothing to be done about
            text = f"wick.ops reads this torch's tensors directly, all but their {', '.join(asked_for)}"
        return [ok("calls", text)]
    way = "through DLPack" if mode == "dlpack" else "through torch.ops"
    return [
        warning(
            "calls-slower",
            f"wick.ops calls {way}: torch {m.torch.get('version')} is not laid out as this Wick "
            "knows it. Results are the same, a small call takes longer",
            f"{m.pip} install --upgrade torch-wick",
        )
    ]


# ---- threads ----


def check_threads(m: Machine) -> list[Finding]:
    asked = m.env.get("OMP_NUM_THREADS", "")
    if asked and not asked.split(",")[0].strip().isdigit():
        text = f'OMP_NUM_THREADS is "{asked}", expected a number'
        return [warning("threads-invalid", text, f"export OMP_NUM_THREADS={m.cpus}")]
    if "threads" not in m.torch:
        return [] if "error" in m.torch else [unknown("threads", "torch does not say how many")]
    threads = m.torch["threads"]
    text = f"torch uses {threads} thread{'s' * (threads != 1)} on {m.cpus} CPU{'s' * (m.cpus != 1)}"
    if threads > m.cpus:
        why = f"OMP_NUM_THREADS={asked}" if asked else "the container allows fewer"
        text += f" ({why}): they wait for one another"
        return [warning("threads-too-many", text, f"export OMP_NUM_THREADS={m.cpus}")]
    if threads == 1 and m.cpus >= 4:
        names = [n for n in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if m.env.get(n)]
        remedy = f"unset {shlex.join(names)}" if names else f"export OMP_NUM_THREADS={m.cpus}"
        return [warning("threads-one", f"{text}: operators run on one", remedy)]
    return [ok("threads", text)]
