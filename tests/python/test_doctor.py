"""wick doctor: bad situations are made, and the finding, its remedy and the exit code are checked.

Where a situation can be made (no compiler, a cache others can write, another torch), it is, and the
doctor runs in a process of its own. Where it cannot (a driver, a GPU), a check is given a machine
that has it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wick
from wick import _doctor, cli_doctor
from wick._doctor import build, gpu, install, system, torches
from wick._doctor.findings import OK, PROBLEM, UNKNOWN, WARNING, Finding
from wick._doctor.machine import Machine, numbers

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(wick.__file__).resolve().parent
DOCTOR = PACKAGE / "cli_doctor.py"
IS_ROOT = os.geteuid() == 0


def doctor(*arguments: str, **environment: str | None) -> tuple[int, dict[str, Finding], str]:
    """Runs the doctor by path: exit code, findings by id, stderr. A variable of None is unset."""
    env = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    done = subprocess.run(
        [sys.executable, str(DOCTOR), "--json", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "Traceback" not in done.stderr
    said = json.loads(done.stdout)
    assert said["exit"] == done.returncode
    found = {f["id"]: Finding(**{k: f[k] for k in f if k != "check"}) for f in said["findings"]}
    return done.returncode, found, done.stderr


def only(found: list[Finding]) -> Finding:
    [finding] = found
    return finding


def machine(**facts: Any) -> Machine:
    """A healthy machine without a GPU, but for the facts given."""
    m = Machine(
        {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **facts.pop("env", {})}
    )
    healthy = {
        "torch": {
            "version": "2.12.0",
            "file": "/x/torch/__init__.py",
            "seconds": 1.0,
            "threads": 8,
        },
        "wick": {
            "version": "1.0",
            "file": "/x/wick/__init__.py",
            "mode": "internals",
            "learnt": ["layout", "memory", "versions", "devices"],
        },
        "core": {},
        "built": {"seconds": 0.2},
        "driver": {"error": "OSError: libcuda.so.1"},
        "devices": {"error": "OSError: libnvidia-ml.so.1"},
        "pci_gpu": False,
        "cpus": 8,
    }
    for name, value in {**healthy, **facts}.items():
        setattr(m, name, value)
    return m


def stub(folder: Path, text: str) -> str:
    """A torch of our own making; the PYTHONPATH that leads to it."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(text)
    return str(folder)


# ---- as a whole ----


@pytest.fixture(scope="module")
def healthy() -> tuple[int, dict[str, Finding], str]:
    return doctor()


def test_here_an_operator_is_really_built(healthy: tuple[int, dict[str, Finding], str]) -> None:
    code, found, _ = healthy
    assert code in (0, 1)
    assert found["build"].level == OK and re.search(r"\d+ ms", found["build"].text)
    assert found["torch"].level == OK and found["package"].text == f"wick {wick.__version__}"
    assert found["calls"].level == OK


def test_every_problem_and_warning_has_a_remedy(
    healthy: tuple[int, dict[str, Finding], str],
) -> None:
    for finding in healthy[1].values():
        assert bool(finding.remedy) == (finding.level in (WARNING, PROBLEM)), finding


def test_what_is_printed_says_the_same_without_rich(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError\n")
    env = {**os.environ, "CC": "/nowhere/cc", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(DOCTOR), "compiler", "libc"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr == ""
    order = [done.stdout.index(h) for h in ("In order\n", "Problems\n", "1 problem;")]
    assert order == sorted(order)
    assert "[compiler-missing]\n      $ " in done.stdout


def test_rich_prints_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    console = pytest.importorskip("rich.console").Console(width=80)
    levels = [Finding(f"id-{level}", level, f"text [{level}]") for level in (OK, WARNING, UNKNOWN)]
    findings = [*levels, Finding("id-p", PROBLEM, "broken", "mend [it]", "a\nb\nc\nd\ne")]
    cli_doctor.print_rich(console, findings, verbose=False)
    text = capsys.readouterr().out
    for word in ("In order", "Warnings", "Could not be checked", "Problems", "$ mend [it]"):
        assert word in text
    assert "text [ok]" in text and "\n      d" in text and "\n      e" not in text


def test_a_check_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def broken(m: Machine) -> list[Finding]:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(_doctor, "CHECKS", {"libc": system.check_libc, "odd": broken})
    assert cli_doctor.main(["--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["counts"] == {"ok": 1, "warning": 0, "unknown": 1, "problem": 0}
    assert "odd could not be checked: ZeroDivisionError: oh" in said["findings"][1]["text"]


def test_problems_outweigh_what_could_not_be_checked() -> None:
    levels = {level: Finding("x", level, "x") for level in (OK, WARNING, UNKNOWN, PROBLEM)}
    assert cli_doctor.exit_code([levels[OK], levels[WARNING]]) == 0
    assert cli_doctor.exit_code([levels[OK], levels[UNKNOWN]]) == 2
    assert cli_doctor.exit_code([levels[UNKNOWN], levels[PROBLEM]]) == 1


def test_a_check_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        cli_doctor.main(["frobnicate"])
    assert e.value.code == 2 and "no check is called frobnicate" in capsys.readouterr().err


def test_it_imports_no_torch_and_nothing_slow() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import cli_doctor; "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'wick', 'rich', 'numpy')])"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n" and time.perf_counter() - start < 5


# ---- compiler ----


def test_cc_that_points_nowhere() -> None:
    code, found, _ = doctor("compiler", "build", CC="/nowhere/gcc -O1")
    assert code == 1 and set(found) == {"compiler-missing"}
    assert found["compiler-missing"].text.startswith('CC is "/nowhere/gcc -O1"')
    assert found["compiler-missing"].remedy == "unset CC"


def test_no_compiler_on_the_path(tmp_path: Path) -> None:
    code, found, _ = doctor("compiler", PATH=str(tmp_path), CC=None)
    assert code == 1 and "no C compiler" in found["compiler-missing"].text
    assert "gcc" in found["compiler-missing"].remedy


def fake_compiler(folder: Path, body: str) -> str:
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "said, id, remedy",
    [
        (
            "t.c:1:10: fatal error: math.h: No such file or directory",
            "compiler-headers",
            "libc6-dev",
        ),
        ("/usr/bin/ld: cannot find -lm", "compiler-link", "binutils"),
        ("collect2: cannot find crti.o", "compiler-link", "binutils"),
        ("Illegal instruction", "compiler-broken", "unset CC"),
    ],
)
def test_a_compiler_that_is_half_installed(tmp_path: Path, said: str, id: str, remedy: str) -> None:
    cc = fake_compiler(tmp_path, f'echo "{said}" >&2; exit 1')
    code, found, _ = doctor("compiler", CC=cc)
    assert code == 1 and list(found) == [id]
    assert remedy in found[id].remedy and said in found[id].detail


@pytest.mark.parametrize(
    "macros, id",
    [
        ({"__GNUC__": "9", "__GNUC_MINOR__": "4"}, "compiler-old"),
        ({"__GNUC__": "4", "__clang_major__": "11", "__clang_minor__": "0"}, "compiler-old"),
        ({"__GNUC__": "12", "__GNUC_MINOR__": "2"}, "compiler"),
        ({"__GNUC__": "4", "__clang_major__": "14", "__clang_minor__": "0"}, "compiler"),
        ({}, "compiler-unknown"),
    ],
)
def test_compiler_versions(macros: dict[str, str], id: str) -> None:
    found = only(build.check_compiler(machine(compiler_macros=macros)))
    assert found.id == id
    assert (found.level == OK) == (id == "compiler")


def test_an_operator_that_does_not_build_is_told_with_its_message() -> None:
    found = only(build.check_build(machine(built={"error": "BuildError: disk\nmore"})))
    assert found.id == "build-fails" and "BuildError: disk" in found.text and "more" in found.detail
    assert only(build.check_build(machine(built={"seconds": 9.0}))).id == "build-slow"


def test_a_compiler_that_breaks_the_build_only(tmp_path: Path) -> None:
    """Compiles what has no wick in it: the trivial file passes, the real build does not."""
    real = shutil.which("cc")
    body = f'case "$*" in *trivial.c*|*-dM*) exec {real} "$@";; esac; echo "cc: killed" >&2; exit 1'
    code, found, _ = doctor("compiler", "build", CC=fake_compiler(tmp_path, body))
    assert code == 1 and found["compiler"].level == OK
    assert found["build-fails"].level == PROBLEM and "does not build" in found["build-fails"].text


# ---- the environment ----


@pytest.mark.parametrize(
    "flags, id, level, remedy",
    [
        ("-g -ffast-math", "flags-fast-math", WARNING, "export CFLAGS=-g"),
        ("-Ofast", "flags-fast-math", WARNING, "unset CFLAGS"),
        ("-m32", "flags-m32", PROBLEM, "unset CFLAGS"),
        ("-O0 -g", "flags-unoptimised", WARNING, "export CFLAGS=-g"),
        ("-fsanitize=address", "flags-sanitize", PROBLEM, "unset CFLAGS"),
        ("-march=native", "flags", OK, ""),
    ],
)
def test_stale_flags(flags: str, id: str, level: str, remedy: str) -> None:
    found = only(build.check_flags(machine(env={"CFLAGS": flags})))
    assert (found.id, found.level, found.remedy) == (id, level, remedy)


def test_headers_of_another_wick(tmp_path: Path) -> None:
    (tmp_path / "wick").mkdir()
    (tmp_path / "wick" / "op.h").touch()
    found = only(build.check_flags(machine(env={"CPATH": f"/usr/x:{tmp_path}"})))
    assert (found.id, found.remedy) == ("flags-other-headers", "unset CPATH")


def test_preloaded_libraries() -> None:
    for value, id in (
        ("/nowhere/libx.so", "preload-missing"),
        ("libstdc++.so.6", "preload-runtime"),
        ("libjemalloc.so.2", "preload"),
        ("", "preload"),
    ):
        assert only(build.check_preload(machine(env={"LD_PRELOAD": value}))).id == id
    stubs = {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"}
    found = only(build.check_preload(machine(env=stubs)))
    assert found.id == "preload-stubs" and "grep -v stubs" in found.remedy


def test_a_temporary_folder_that_is_not_there() -> None:
    code, found, _ = doctor("tmp", TMPDIR="/nowhere/tmp")
    assert code == 1 and "TMPDIR" in found["tmp-missing"].remedy


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_a_temporary_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert only(build.check_tmp(machine(env={"TMPDIR": str(tmp_path)}))).id == "tmp-unwritable"


class Disk:
    f_flag, f_bavail, f_frsize, f_files, f_favail = 0, 1 << 20, 4096, 1000, 900


@pytest.mark.parametrize(
    "fact, id",
    [
        ({}, "tmp"),
        ({"f_flag": 8}, "tmp-noexec"),
        ({"f_bavail": 9}, "tmp-full"),
        ({"f_favail": 1}, "tmp-full"),
    ],
)
def test_disks(monkeypatch: pytest.MonkeyPatch, fact: dict[str, int], id: str) -> None:
    monkeypatch.setattr(os, "statvfs", lambda folder: type("Bad", (Disk,), fact))
    found = only(build.check_tmp(machine(env={"TMPDIR": "/"} if IS_ROOT else {})))
    assert found.id == id and (found.level == PROBLEM) == (id != "tmp")


# ---- torch ----


def test_an_old_torch(tmp_path: Path) -> None:
    text = (
        "__version__ = '2.4.1+cpu'\nclass version: cuda = None; hip = None\n"
        "def get_num_threads(): return 1\n"
    )
    code, found, _ = doctor("torch", "package", "build", "calls", PYTHONPATH=stub(tmp_path, text))
    assert code == 1 and list(found) == ["torch-old"]
    assert "2.4.1+cpu" in found["torch-old"].text and "'torch>=2.10'" in found["torch-old"].remedy


BROKEN = {
    "torch-missing": "raise ModuleNotFoundError('No module named torch', name='torch')",
    "torch-crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "torch-libraries": "raise ImportError('libcublas.so.12: cannot open shared object file')",
    "torch-mixed": "raise ImportError('libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent')",
    "torch-shadowed": "x = 1",
    "torch-broken": "raise ValueError('numpy.dtype size changed')",
    "libstdcxx-old": 'raise ImportError("libstdc++.so.6: version `GLIBCXX_3.4.30\' not found")',
}


@pytest.mark.parametrize("id", BROKEN)
def test_a_torch_that_does_not_import(tmp_path: Path, id: str) -> None:
    path = stub(tmp_path, BROKEN[id])
    code, found, _ = doctor("torch", "package", "build", "calls", "threads", "gpu", PYTHONPATH=path)
    assert code == 1 and [f.id for f in found.values() if f.level == PROBLEM] == [id]
    assert found[id].remedy
    assert f"wick {wick.__version__}" in found["package"].text  # the core loads without torch


def test_what_torch_prints_while_importing_is_not_mistaken(tmp_path: Path) -> None:
    text = 'print(\'{"step": "torch", "version": "9"}\')\nraise ImportError(\'no\')'
    _, found, _ = doctor("torch", PYTHONPATH=stub(tmp_path, text))
    assert list(found) == ["torch-broken"]


def test_a_newer_libstdcxx_is_had_where_the_old_one_came_from() -> None:
    facts = {"error": "ImportError: version `GLIBCXX_3.4.30' not found"}
    for env, remedy in (
        ({"LD_LIBRARY_PATH": "/old"}, "unset LD_LIBRARY_PATH"),
        ({"CONDA_PREFIX": "/conda"}, "conda install -c conda-forge libstdcxx-ng"),
    ):
        found = only(torches.check_torch(machine(env=env, torch=facts)))
        assert (found.id, found.remedy) == ("libstdcxx-old", remedy)


def test_versions_are_compared_as_numbers() -> None:
    assert numbers("2.10.0a0+git") == (2, 10) > numbers("2.9rc1") == (2, 9)
    assert numbers("12.8") == (12, 8) and numbers("2.11rc1") == (2, 11)


def test_a_package_that_does_not_import() -> None:
    found = only(torches.check_package(machine(wick={"error": "ImportError: no _wick"})))
    assert found.id == "package-broken" and "torch-wick" in found.remedy


def test_call_modes() -> None:
    def check(mode: str, learnt: tuple[str, ...] = (), **env: str) -> Finding:
        facts = {"version": "1", "file": "f", "mode": mode, "learnt": list(learnt)}
        return only(torches.check_calls(machine(env=env, wick=facts)))

    whole = check("internals", ("layout", "memory", "versions", "devices"))
    assert whole.level == OK and "fastest" in whole.text
    part = check("internals", ("layout", "versions", "devices"))
    assert part.level == OK and "all but their memory" in part.text
    assert check("dlpack").id == check("dispatcher").id == "calls-slower"
    assert check("dispatcher", WICK_DIRECT="dispatcher").remedy == "unset WICK_DIRECT"


@pytest.mark.parametrize(
    "threads, cpus, env, id",
    [
        (8, 8, {}, "threads"),
        (1, 1, {}, "threads"),
        (64, 4, {}, "threads-too-many"),
        (1, 8, {"OMP_NUM_THREADS": "1"}, "threads-one"),
        (8, 8, {"OMP_NUM_THREADS": "many"}, "threads-invalid"),
    ],
)
def test_threads(threads: int, cpus: int, env: dict[str, str], id: str) -> None:
    facts = {"version": "2.12", "threads": threads}
    found = only(torches.check_threads(machine(env=env, torch=facts, cpus=cpus)))
    assert found.id == id and bool(found.remedy) == (id != "threads")


# ---- GPUs ----

H200 = {"status": 0, "driver": "580.1", "devices": [{"name": "H200", "capability": [9, 0]}]}
CUDA = {
    "version": "2.12.0+cu130",
    "file": "/x/torch/__init__.py",
    "cuda": "13.0",
    "architectures": ["sm_80", "sm_90"],
    "available": True,
}


def gpu_machine(**facts: Any) -> Machine:
    return machine(**{"driver": {"cuda": [13, 0]}, "devices": H200, "torch": CUDA, **facts})


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_without_a_gpu_everything_is_in_order() -> None:
    for check in (gpu.check_driver, gpu.check_gpu, gpu.check_architectures, gpu.check_nvrtc):
        assert all(f.level == OK for f in check(machine()))


def test_with_one_too() -> None:
    for check in (gpu.check_driver, gpu.check_gpu, gpu.check_architectures):
        assert only(check(gpu_machine())).level == OK


GPU_SITUATIONS: dict[str, tuple[Callable[[Machine], list[Finding]], dict[str, Any], str]] = {
    "driver-old": (gpu.check_driver, {"driver": {"cuda": [12, 6]}}, "cu126"),
    "driver-mismatch": (gpu.check_driver, {"devices": {"status": 18, "devices": []}}, "reboot"),
    "driver-broken": (gpu.check_driver, {"driver": {"error": "x", "crash": "SIGSEGV"}}, "reboot"),
    "driver-missing": (gpu.check_driver, {"driver": {"error": "x"}, "pci_gpu": True}, "--gpus all"),
    "gpu-unused": (gpu.check_gpu, {"torch": {"version": "2.12.0+cpu"}}, "the cu130 build"),
    "gpu-hidden": (
        gpu.check_gpu,
        {"torch": {**CUDA, "available": False}, "env": {"CUDA_VISIBLE_DEVICES": ""}},
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "gpu-unavailable": (gpu.check_gpu, {"torch": {**CUDA, "available": False}}, "cuda()"),
    "gpu-architecture": (
        gpu.check_architectures,
        {"torch": {**CUDA, "architectures": ["sm_75", "sm_80", "sm_100"]}},
        "pip install",
    ),
}


@pytest.mark.parametrize("id", GPU_SITUATIONS)
def test_gpu_situations(monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    check, facts, remedy = GPU_SITUATIONS[id]
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda p: p != "/dev/nvidia0" and exists(p))
    found = only(check(gpu_machine(**facts)))
    assert found.id == id and remedy in found.remedy


@pytest.mark.parametrize(
    "entry, capability, runs",
    [
        ("sm_80", [8, 9], True),
        ("sm_86", [8, 0], False),
        ("sm_90", [10, 0], False),
        ("compute_90", [10, 0], True),
        ("compute_100", [9, 0], False),
        ("sm_90a", [9, 0], True),
        ("sm_100a", [10, 3], False),
        ("sm_120", [12, 0], True),
        ("gfx90a", [9, 0], False),
    ],
)
def test_architectures(entry: str, capability: list[int], runs: bool) -> None:
    assert gpu._runs_on(entry, capability) == runs


def test_nvrtc_is_found_in_nvidias_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_toolkits", lambda m: [])
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    torch = {**CUDA, "file": str(tmp_path / "torch" / "__init__.py")}
    alone = {"env": {"PATH": ""}, "package": str(tmp_path / "wick")}
    found = only(gpu.check_nvrtc(gpu_machine(torch=torch, **alone)))
    assert found.id == "nvrtc-missing" and found.remedy.endswith("install nvidia-cuda-nvrtc")
    old = gpu_machine(torch={**torch, "cuda": "12.8"}, **alone)
    assert only(gpu.check_nvrtc(old)).remedy.endswith("nvidia-cuda-nvrtc-cu12")
    library = tmp_path / "nvidia" / "cu13" / "lib"
    library.mkdir(parents=True)
    (library / "libnvrtc-builtins.so.13.0").touch()
    assert only(gpu.check_nvrtc(gpu_machine(torch=torch, **alone))).id == "nvrtc-missing"
    (library / "libnvrtc.so.13").touch()
    assert only(gpu.check_nvrtc(gpu_machine(torch=torch, **alone))).level == OK
    found = only(gpu.check_nvrtc(gpu_machine(torch=torch, driver={"cuda": [12, 8]}, **alone)))
    assert found.id == "nvrtc-new" and "CUDA 13" in found.text and "CUDA 12.8" in found.text


def test_what_compiles_kernels_without_nvrtc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_toolkits", lambda m: [])
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    alone = {"package": str(tmp_path / "wick"), "torch": {"version": "2.13.0+cpu"}}
    with_nvcc = machine(env={"PATH": str(tmp_path)}, **alone)
    assert "compiled by nvcc" in only(gpu.check_nvrtc(with_nvcc)).text
    nothing = machine(env={"PATH": ""}, **alone)
    assert only(gpu.check_nvrtc(nothing)).level == OK, "a machine for the CPU alone"
    assert "<<<>>>" in only(gpu.check_nvcc(nothing)).text
    there = machine(env={"PATH": "", "WICK_NVRTC": str(nvcc)}, **alone)
    assert only(gpu.check_nvrtc(there)).detail == str(nvcc)
    lost = machine(env={"PATH": "", "WICK_NVRTC": "/nowhere/libnvrtc.so"}, **alone)
    assert only(gpu.check_nvrtc(lost)).id == "nvrtc-setting"
    lost = machine(env={"PATH": "", "WICK_CUDA_COMPILER": "/nowhere/nvcc"}, **alone)
    assert only(gpu.check_nvcc(lost)).id == "nvcc-setting"
    named = machine(env={"PATH": "", "WICK_CUDA_COMPILER": str(nvcc)}, **alone)
    assert only(gpu.check_nvcc(named)).level == OK


def test_nvcc_of_another_cuda(tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")
    nvcc.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = only(gpu.check_nvcc(gpu_machine(env=env)))
    assert found.id == "nvcc-version" and "12.4" in found.text and "13.0" in found.text
    assert only(gpu.check_nvcc(machine(env=env))).level == OK
    home = gpu.check_nvcc(machine(env={**env, "CUDA_HOME": "/nowhere/cuda"}))
    assert [f.id for f in home] == ["nvcc-home", "nvcc"]
    nvcc.write_text("#!/bin/sh\nexit 1\n")
    assert only(gpu.check_nvcc(machine(env=env))).id == "nvcc-broken"


# ---- the installation ----


def fake_wick(folder: Path, said: str) -> str:
    folder.mkdir()
    path = folder / "wick"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return str(path)


def test_commands(tmp_path: Path) -> None:
    one = fake_wick(tmp_path / "one", "wick 1.0")
    two = fake_wick(tmp_path / "two", "wick 0.9")
    other = fake_wick(tmp_path / "other", "a candle tool")

    def check(own: str, *path: str) -> list[str]:
        folders = os.pathsep.join([*(os.path.dirname(p) for p in path), "/usr/bin", "/bin"])
        m = machine(env={"PATH": folders, "WICK_CLI": own})
        found = install.check_command(m)
        assert all(f.remedy for f in found if f.level != OK)
        return [f.id for f in found]

    assert check(one, one) == ["command"]
    assert check(one) == ["command"]
    assert check(one, one, two) == ["command-twice"]
    assert check(one, two, one) == ["command-other"]
    assert check(two, two) == ["command-version"]
    assert check(other, other) == ["command-foreign"]
    assert check("/nowhere/wick") == ["command-foreign"]


def test_no_command_at_all(tmp_path: Path) -> None:
    m = machine(env={"PATH": str(tmp_path)})
    m.python = str(tmp_path / "python")
    assert only(install.check_command(m)).id == "command-missing"


# ---- the cache ----


def test_a_cache_that_others_can_write(tmp_path: Path) -> None:
    cache = tmp_path / "my cache"
    cache.mkdir()
    cache.chmod(0o777)
    code, found, _ = doctor("cache", WICK_CACHE_DIR=str(cache))
    assert code == 1 and found["cache-permissions"].remedy == f"chmod go-w '{cache}'"
    cache.chmod(0o700)
    (cache / "v1").mkdir()
    (cache / "v1").chmod(0o770)
    code, found, _ = doctor("cache", WICK_CACHE_DIR=str(cache))
    assert code == 1 and found["cache-permissions"].remedy == f"chmod go-w '{cache}/v1'"
    (cache / "v1").chmod(0o700)
    assert doctor("cache", WICK_CACHE_DIR=str(cache))[0] == 0


def test_the_cache_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    m = machine(env={"WICK_CACHE_DIR": str(tmp_path)})
    found = only(install.check_cache(m))
    assert found.id == "cache-owner" and "WICK_CACHE_DIR" in found.remedy


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    code, found, _ = doctor("cache", "entries", WICK_CACHE_DIR=str(tmp_path / "cache"))
    assert code == 1 and found["cache-not-a-folder"].remedy == f"rm {tmp_path}/cache"


def test_a_read_only_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o500)
    if IS_ROOT:  # root may write there all the same
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    env = {"HOME": str(tmp_path), "TMPDIR": "/tmp"}
    found = only(install.check_cache(machine(env=env)))
    assert found.id == "cache-read-only" and found.remedy == "export WICK_CACHE_DIR=/tmp/wick-cache"
    tmp_path.chmod(0o700)


def test_a_cache_whose_own_folder_cannot_be_used(tmp_path: Path) -> None:
    for mode, id in ((0o000, "cache-unreadable"), (0o500, "cache-read-only")):
        tmp_path.chmod(mode)
        found = only(install.check_cache(machine(env={"WICK_CACHE_DIR": str(tmp_path)})))
        tmp_path.chmod(0o700)
        assert found.id == id and found.level == WARNING and str(tmp_path) in found.remedy


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    m = machine()
    m.cache = None
    assert only(install.check_cache(m)).id == "cache-nowhere"


@pytest.mark.parametrize(
    "size, id", [("500M", None), ("1G", None), ("lots", "cache-limit"), ("10", "cache-limit")]
)
def test_the_size_of_the_cache(tmp_path: Path, size: str, id: str | None) -> None:
    env = {"WICK_CACHE_DIR": str(tmp_path), "WICK_CACHE_SIZE": size}
    found = [f.id for f in install.check_cache(machine(env=env))]
    assert found == (["cache", id] if id else ["cache"])


def seal(data: bytes) -> bytes:
    return data + install.SEAL.pack(b"WICKSEAL", len(data), b"\0" * 16)


def test_damaged_entries(tmp_path: Path) -> None:
    entries = tmp_path / "v1"
    entries.mkdir()
    m = machine(env={"WICK_CACHE_DIR": str(tmp_path), "PATH": "/nowhere"}, command=None)
    assert only(install.check_entries(m)).level == OK
    (entries / "aa.so").write_bytes(seal(b"x" * 100))
    (entries / "aa.lock").touch()
    found = only(install.check_entries(m))
    assert found.level == OK and "holds 1 module, " in found.text
    (entries / "bb.so").write_bytes(seal(b"x" * 100)[:-1])
    (entries / "cc.note").write_bytes(b"short")
    found = only(install.check_entries(m))
    assert found.id == "cache-damaged" and "2 of 3" in found.text
    assert len(list(entries.iterdir())) == 4  # the doctor removes nothing


def test_entries_that_a_real_build_left_are_whole(tmp_path: Path) -> None:
    code = (
        "import wick; from wick._doctor.child import SOURCE; wick.load(source=SOURCE, name='x.c')"
    )
    env = {**os.environ, "WICK_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=100)
    if not list(tmp_path.glob("v1/*.so")):
        pytest.fail("the build left nothing in its cache")
    status, found, _ = doctor("entries", WICK_CACHE_DIR=str(tmp_path))
    assert (
        status == 0 and found["entries"].level == OK and " 0 modules" not in found["entries"].text
    )


def test_a_cache_over_its_limit(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "aa.so").write_bytes(seal(b"x" * (5 << 20)))
    env = {"WICK_CACHE_DIR": str(tmp_path), "WICK_CACHE_SIZE": "2M"}
    found = only(install.check_entries(machine(env=env, command=None)))
    assert (found.id, found.remedy) == ("cache-large", "wick cache clear")


def test_the_command_is_asked_for_the_size(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    command = fake_wick(tmp_path / "bin", '{"modules": 7, "files": 21, "bytes": 3145728}')
    env = {"WICK_CACHE_DIR": str(tmp_path), "WICK_CLI": command}
    assert "7 modules, 3.0 MiB" in only(install.check_entries(machine(env=env))).text


# ---- the system ----


def test_limits() -> None:
    gib = 1 << 30
    assert system.judge_limits({}) == []
    assert system.judge_limits({"NOFILE": 1024, "AS": 64 * gib, "FSIZE": gib}) == []
    tight = {"NOFILE": 64, "AS": gib, "FSIZE": 1 << 20}
    found = system.judge_limits(tight)
    assert [f.id for f in found] == ["limit-file-size", "limit-files", "limit-memory"]
    assert [f.remedy for f in found] == [
        "ulimit -f unlimited",
        "ulimit -n 1024",
        "ulimit -v unlimited",
    ]
    assert system.judge_pids(0, 0) == [] == system.judge_pids(10, 100)
    assert only(system.judge_pids(95, 100)).id == "limit-processes"


def test_a_real_limit_is_seen() -> None:
    command = f"ulimit -n 100; exec {sys.executable} {DOCTOR} --json limits"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert "limit-files" in done.stdout and done.returncode == 0


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, id in ((100 << 20, "memory-low"), (8 << 30, "memory")):
        monkeypatch.setattr(system, "available_memory", lambda free=free: free)
        assert only(system.check_memory(machine())).id == id


def test_the_c_library() -> None:
    assert system.judge_glibc("glibc", "2.17").id == "libc-old"
    assert system.judge_glibc("glibc", "2.28").level == OK
    assert system.judge_glibc("glibc", "2.100").level == OK


def test_musl(monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", confstr)
    assert only(system.check_libc(machine())).id == "libc-musl"


def test_a_container_without_proc(tmp_path: Path) -> None:
    assert only(system.judge_proc(str(tmp_path))).id == "proc-missing"
    assert only(system.judge_proc("/proc")).level == OK


# ---- the page ----


def ids_in_the_code() -> set[str]:
    text = "".join(path.read_text() for path in (PACKAGE / "_doctor").glob("*.py"))
    plain = re.findall(r'\b(?:warning|problem)\(\s*"([a-z0-9-]+)"', text)
    endings = re.findall(r'\bproblem\(f"\{id\}-([a-z]+)"', text)
    return {*plain, *(f"{id}-{ending}" for id in ("tmp", "cache") for ending in endings)}


def test_the_page_has_every_finding_and_no_other() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    table = page[page.index("## What `wick doctor` finds") :]
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", table, re.M))
    assert listed - {"not-checked"} == ids_in_the_code()
    quoted = set(re.findall(r"\[([a-z0-9]+-[a-z0-9-]+)\](?!\()", page))
    assert quoted <= listed, quoted - listed
