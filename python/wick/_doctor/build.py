"""build -- the C compiler, what the environment tells it, and where it works"""

from __future__ import annotations

import os
import shlex
import tempfile

from .findings import Finding, ok, problem, warning
from .machine import Machine, first_line, run

TRIVIAL = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
double wick_doctor(double x) { return sin(x) + (double)(int64_t)strlen("x"); }
"""

OLDEST_GCC, OLDEST_CLANG = 11, 12
"""The first to know -march=x86-64-v3, for which modules are built besides plain x86-64."""

SLOW_BUILD = 3.0
ENOUGH_SPACE = 64 << 20


# ---- the compiler ----


def check_compiler(m: Machine) -> list[Finding]:
    given = m.env.get("CC", "").strip()
    if not m.compiler:
        if given:
            return [
                problem(
                    "compiler-missing",
                    f'CC is "{given}", and {given.split()[0]} cannot be run',
                    "unset CC" if m.which("cc") or m.which("gcc") else m.install("gcc"),
                )
            ]
        return [
            problem(
                "compiler-missing",
                "no C compiler: neither cc nor gcc nor clang is on the PATH",
                m.install("gcc"),
            )
        ]
    return _try_compiler(m) or [_judge_version(m)]


def _judge_version(m: Machine) -> Finding:
    macros = m.compiler_macros
    words = " ".join(m.compiler or [])
    clang = "__clang_major__" in macros
    name = "clang" if clang else "gcc"
    major = int(macros.get("__clang_major__" if clang else "__GNUC__", "0"))
    minor = macros.get("__clang_minor__" if clang else "__GNUC_MINOR__", "0")
    text = f"{words} is {name} {major}.{minor}, and it compiles and links"
    if major == 0:
        return warning(
            "compiler-unknown",
            f"{words} compiles, but is neither gcc nor clang: Wick's flags may be foreign to it",
            f"export CC=gcc    # after: {m.install('gcc')}",
        )
    if major < (OLDEST_CLANG if clang else OLDEST_GCC):
        return warning(
            "compiler-old",
            f"{words} is {name} {major}.{minor}: `wick build` needs gcc {OLDEST_GCC} or "
            f"clang {OLDEST_CLANG} (wick.load works)",
            m.install(f"{name}-12") + f" && export CC={name}-12",
        )
    return ok("compiler", text, m.which((m.compiler or [""])[0]) or "")


def _try_compiler(m: Machine) -> list[Finding]:
    """A function of libm in a shared object, without Wick: what fails here is not Wick's."""
    assert m.compiler
    with tempfile.TemporaryDirectory(prefix="wick-doctor-", dir=_scratch(m)) as folder:
        source = os.path.join(folder, "trivial.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(TRIVIAL)
        command = [*m.compiler, "-shared", "-fPIC", "-o", f"{folder}/trivial.so", source, "-lm"]
        code, _, err = run(command, m.env, timeout=60)
    if code == 0:
        return []
    words = " ".join(m.compiler)
    detail = err.strip()[-1500:]
    lowered = err.lower()
    if "no such file" in lowered and ".h" in lowered:
        text, remedy = f"{words} finds no C headers", m.install("libc6-dev")
        return [problem("compiler-headers", text, remedy, detail)]
    if any(word in lowered for word in ("cannot find -l", "crti.o", "crt1.o", "ld: ", "linker")):
        text = f"{words} compiles but does not link"
        return [problem("compiler-link", text, m.install("binutils libc6-dev"), detail)]
    said = first_line(err) or f"exit code {code}"
    return [
        problem(
            "compiler-broken",
            f"{words} does not compile five lines of C: {said}",
            m.install("gcc") if not m.env.get("CC") else "unset CC",
            detail,
        )
    ]


def _scratch(m: Machine) -> str | None:
    """The folder for trials: $TMPDIR where it can be written, so that a bad one is one finding."""
    return m.tmp if os.access(m.tmp, os.W_OK | os.X_OK) else None


# ---- a real build ----


def check_build(m: Machine) -> list[Finding]:
    if not m.compiler or not m.built:
        return []  # its own finding says why nothing can be built
    error = m.built.get("error", "")
    if error:
        return [
            problem(
                "build-fails",
                f"an operator of eight lines does not build: {first_line(error)}",
                f"{_try_again(m)}    # after mending what is said above",
                error + "\n" + m.built.get("said", ""),
            )
        ]
    seconds = m.built["seconds"]
    if seconds > SLOW_BUILD:
        return [
            warning(
                "build-slow",
                f"building an operator took {seconds:.1f} s, usual is a fraction of a second: a "
                f"slow disk under {m.tmp}, a compiler behind a wrapper, or a busy machine",
                f"time {' '.join(m.compiler)} --version; df -h {shlex.quote(m.tmp)}",
            )
        ]
    return [ok("build", f"an operator was built, loaded and called: {seconds * 1e3:.0f} ms")]


def _try_again(m: Machine) -> str:
    return f"{m.python} {os.path.join(m.package, 'cli_doctor.py')} --verbose build"


# ---- the environment ----

FAST_MATH = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only")


def check_flags(m: Machine) -> list[Finding]:
    found: list[Finding] = []
    flags = [*m.env.get("CC", "").split()[1:], *m.env.get("CFLAGS", "").split()]
    fast = [flag for flag in flags if flag in FAST_MATH]
    if fast:
        found.append(
            warning(
                "flags-fast-math",
                f"{' '.join(fast)} in CFLAGS: NaN and infinity are no longer what torch makes of "
                "them, and results differ between machines",
                _without(m, fast),
            )
        )
    if "-m32" in flags:
        text = "-m32 in CFLAGS: a 32-bit module does not load into a 64-bit Python"
        found.append(problem("flags-m32", text, _without(m, ["-m32"])))
    slow = [flag for flag in flags if flag in ("-O0", "-Og")]
    if slow:
        text = f"{slow[0]} in CFLAGS: operators are built without optimisation"
        found.append(warning("flags-unoptimised", text, _without(m, slow)))
    checked = [flag for flag in flags if flag.startswith("-fsanitize=")]
    if checked and "san" not in m.env.get("LD_PRELOAD", ""):
        found.append(
            problem(
                "flags-sanitize",
                f"{checked[0]} in CFLAGS: such a module loads only with the sanitizer preloaded",
                _without(m, checked),
            )
        )
    for name in ("CPATH", "C_INCLUDE_PATH"):
        for folder in m.env.get(name, "").split(os.pathsep):
            if folder and os.path.exists(os.path.join(folder, "wick", "op.h")):
                text = f"{name} holds {folder}, which has a <wick/op.h> of its own"
                found.append(warning("flags-other-headers", text, f"unset {name}"))
    return found or [ok("flags", _flags_text(flags))]


def _flags_text(flags: list[str]) -> str:
    return f"CFLAGS adds {' '.join(flags)}" if flags else "CC and CFLAGS add no flags"


def _without(m: Machine, flags: list[str]) -> str:
    kept = [flag for flag in m.env.get("CFLAGS", "").split() if flag not in flags]
    return f"export CFLAGS={shlex.quote(' '.join(kept))}" if kept else "unset CFLAGS"


def check_preload(m: Machine) -> list[Finding]:
    found: list[Finding] = []
    items = m.env.get("LD_PRELOAD", "").replace(":", " ").split()
    missing = [item for item in items if "/" in item and not os.path.exists(item)]
    if missing:
        text = f"LD_PRELOAD names {missing[0]}, which is not there: every program says so"
        found.append(warning("preload-missing", text, "unset LD_PRELOAD"))
    runtime = [item for item in items if "libstdc++" in item or "libgomp" in item]
    if runtime and not missing:
        found.append(
            warning(
                "preload-runtime",
                f"LD_PRELOAD puts {runtime[0]} before the one torch was built with",
                "unset LD_PRELOAD",
            )
        )
    stubs = [
        f for f in m.env.get("LD_LIBRARY_PATH", "").split(":") if f.rstrip("/").endswith("stubs")
    ]
    if stubs:
        found.append(
            problem(
                "preload-stubs",
                f"LD_LIBRARY_PATH holds {stubs[0]}: its libcuda is for linking and cannot run",
                'export LD_LIBRARY_PATH=$(tr : "\\n" <<<"$LD_LIBRARY_PATH" | grep -v stubs '
                "| paste -sd:)",
            )
        )
    names = ", ".join(os.path.basename(item) for item in items)
    return found or [ok("preload", f"LD_PRELOAD: {names}" if items else "no LD_PRELOAD")]


# ---- the temporary folder ----


def check_tmp(m: Machine) -> list[Finding]:
    elsewhere = 'mkdir -p "$HOME/tmp" && export TMPDIR="$HOME/tmp"'
    if not os.path.isdir(m.tmp):
        return [problem("tmp-missing", f"the temporary folder {m.tmp} is not there", elsewhere)]
    if not os.access(m.tmp, os.W_OK | os.X_OK):
        text = f"the temporary folder {m.tmp} cannot be written"
        return [problem("tmp-unwritable", text, elsewhere)]
    return judge_disk("tmp", f"the temporary folder {m.tmp}", m.tmp, elsewhere)


def judge_disk(id: str, what: str, folder: str, elsewhere: str) -> list[Finding]:
    """Whether code may be run from a folder, and whether there is room."""
    disk = os.statvfs(folder)
    if disk.f_flag & getattr(os, "ST_NOEXEC", 8):
        text = f"{what} is mounted noexec: a module there does not load"
        return [problem(f"{id}-noexec", text, elsewhere)]
    free = disk.f_bavail * disk.f_frsize
    if free < ENOUGH_SPACE:
        text = f"{what} has {free >> 20} MiB free: a build needs up to {ENOUGH_SPACE >> 20}"
        return [problem(f"{id}-full", text, f"df -h {shlex.quote(folder)}; {elsewhere}")]
    if disk.f_files and disk.f_favail < 64:
        text = f"{what} has no file entries (inodes) left"
        return [problem(f"{id}-full", text, f"df -i {shlex.quote(folder)}; {elsewhere}")]
    return [ok(id, f"{what}: {free / (1 << 30):.1f} GiB free, code may run there")]
