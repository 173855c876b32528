"""The `wick` command as a person meets it: what it prints, where, and with which exit code."""

import ctypes
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "cli"
VERBS = (
    "new",
    "build",
    "list",
    "show",
    "check",
    "bench",
    "tune",
    "cache",
    "doctor",
    "config",
    "completion",
    "man",
)
PYTHON_VERBS = ("new", "check", "bench", "tune", "doctor")

RELU = """/* relu -- max(x, 0)
 *
 * NaN stays NaN. */
#include <wick/op.h>
WICK_OP(relu, "x: T[*N] -> y: T[*N] where T: f32 f64");
WICK_IMPL wick_status relu_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] < 0 ? 0 : x[i];
    return WICK_OK;
}
"""


def find_wick():
    """$WICK_CLI, or the command beside this Python, or the one on the PATH."""
    beside = pathlib.Path(sys.executable).parent / "wick"
    given = os.environ.get("WICK_CLI") or (beside if beside.exists() else shutil.which("wick"))
    assert given, "the wick command was not found: set WICK_CLI"
    return str(given)


def runner(folder, command=None):
    """A function that runs the command in a folder, with a cache of its own and further variables."""
    command = command or find_wick()
    ours = ("DEBUG", "CFLAGS", "CC", "CUDA_HOME", "USE_CUDA")
    inherited = {k: v for k, v in os.environ.items() if k not in ours}

    def run(*args, **environment):
        return subprocess.run(
            [command, *args],
            cwd=folder,
            env={**inherited, "WICK_CACHE_DIR": str(folder / "cache"), **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    run.folder = folder
    run.command = command
    return run


@pytest.fixture
def wick(tmp_path):
    (tmp_path / "relu.c").write_text(RELU)
    return runner(tmp_path)


# ---- help: one table, many doors ----


def check_golden(name, text):
    """Compares byte for byte; `tools/bless` writes instead."""
    path = GOLDEN / name
    if os.environ.get("WICK_BLESS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: tools/bless writes it"
    assert text == path.read_text(), f"{name} has changed; if it is meant, run tools/bless"


@pytest.mark.parametrize("verb", VERBS)
def test_golden_help(wick, verb):
    done = wick(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: wick {verb} ")
    assert "\nOptions:\n" in done.stdout and "\nExamples:\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    check_golden(f"{verb}.txt", done.stdout)
    assert wick("help", verb).stdout == wick(verb, "-h").stdout == done.stdout
    assert done.stdout.startswith(wick(verb, "--usage").stdout if verb not in PYTHON_VERBS else "")


def test_golden_help_of_the_command(wick):
    done = wick("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout
    check_golden("wick.txt", done.stdout)
    assert wick("-h").stdout == wick("help").stdout == done.stdout


def test_golden_manual(wick):
    done = wick("man")
    assert (done.returncode, done.stderr) == (0, "")
    version = wick("--version").stdout.split()[1]
    check_golden("wick.1", done.stdout.replace(f"Wick {version}", "Wick VERSION"))
    for verb in VERBS:
        assert f'\n.SS "wick {verb}' in done.stdout
    installed = pathlib.Path(wick.command).parent.parent / "share/man/man1/wick.1"
    if installed.exists():
        assert installed.read_text() == done.stdout
    if shutil.which("groff"):
        checked = subprocess.run(
            ["groff", "-man", "-ww", "-z"], input=done.stdout, capture_output=True, text=True
        )
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_golden_completion(wick, shell):
    done = wick("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    check_golden(f"completion.{shell}", done.stdout)
    if shutil.which(shell):
        (wick.folder / "completion").write_text(done.stdout)
        subprocess.run([shell, "-n", wick.folder / "completion"], check=True)


@pytest.mark.parametrize(
    "words, offered",
    [
        (["bu"], {"build"}),
        (["cache", "l"], {"list"}),
        (["cache", ""], {"path", "list", "size", "verify", "clear", "--json", "--help"}),
        (["build", "--na"], {"--namespace=", "--native"}),
        (["list", "rel"], {"relu.c"}),
        (["build", "-o", "rel"], {"relu.c"}),
        (["show", "--include", "=", "rel"], {"relu.c"}),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(wick, words, offered):
    line = " ".join(shlex.quote(w) for w in ["wick", *words])
    script = f"""{wick("completion", "bash").stdout}
COMP_WORDS=({line}); COMP_CWORD={len(words)}; _wick 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "-c", script], cwd=wick.folder, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("verb", PYTHON_VERBS)
def test_the_options_of_python_verbs_are_those_of_their_scripts(wick, verb):
    done = wick("config", "--cmake")
    if done.returncode:
        pytest.skip("this command runs from a build folder without the Python package")
    script = pathlib.Path(done.stdout.strip()).parent / f"cli_{verb}.py"
    said = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    option = re.compile(r"(?<!\S)--[a-z-]+", re.M)
    described = wick(verb, "--help").stdout.split("\nOptions:\n")[1].split("\n\n")[0]
    assert set(option.findall(described)) == set(option.findall(said.stdout)) | {"--help"}


def test_help_and_cache_answer_at_once(wick):
    for args in (["--help"], ["cache"], ["doctor", "--help"]):
        took = []  # seconds of a CPU: a busy machine makes them wait, not work
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert wick(*args).returncode == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert min(took) < 0.05, (args, took)


def test_an_answer_that_cannot_be_written_is_a_failure(wick):
    with open("/dev/full", "w") as full:
        for args in (["man"], ["--help"], ["build", "--help"]):
            done = subprocess.run([wick.command, *args], stdout=full, stderr=subprocess.PIPE)
            assert done.returncode == 1 and done.stderr.startswith(b"wick: ")


# ---- wrong use ----


def test_version(wick):
    done = wick("--version")
    assert done.returncode == 0
    assert done.stdout.split()[0] == "wick" and done.stdout.split()[1][0].isdigit()


@pytest.mark.parametrize(
    "args, words",
    [
        ([], "a verb is missing"),
        (["biuld"], 'there is no verb "biuld"; did you mean "build"?'),
        (["frobnicate"], 'there is no verb "frobnicate"\n'),
        (["build"], "which file is to be built?"),
        (["build", "relu.c"], "-o MODULE.so"),
        (["build", "--nonsense"], "--nonsense"),
        (["show"], "which file or operator?"),
        (["show", "a.c", "b.c"], "one file or operator at a time"),
        (["show", "--types"], "--types"),
        (["list", "--json"], "--json"),
        (["cache", "lst"], '"lst" is none of its words; did you mean "list"?'),
        (["cache", "frobnicate"], "none of its words: path, list, size, verify, clear"),
        (["cache", "list", "size"], "one thing at a time"),
        (["config", "--nonsense"], "--nonsense"),
        (["config", "word"], "Too many arguments"),
        (["completion"], "for which shell?"),
        (["completion", "tcsh"], "none of bash, zsh, fish"),
        (["completion", "bash", "zsh"], "one shell at a time"),
        (["man", "page"], "Too many arguments"),
        (["help", "biuld"], 'did you mean "build"?'),
        (["\x1b[31mred"], 'there is no verb "?[31mred"'),
    ],
)
def test_wrong_use_is_exit_code_2(wick, args, words):
    done = wick(*args)
    assert done.returncode == 2
    assert done.stdout == "" and words in done.stderr


def test_build_then_list(wick):
    done = wick("build", "relu.c", "-o", "relu.so")
    assert (done.returncode, done.stdout) == (0, "")
    slow = r"(wick build: \[\d/\d\] (relu\.c|linking)\n)*"  # after a second it says what it does
    summary = slow + r"wick build: built 1 operator, 4 units, \d+\.\d s -> relu\.so\n"
    assert re.fullmatch(summary, done.stderr), done.stderr
    quiet = wick("build", "-q", "relu.c", "-o", "relu.so")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    slow = wick.folder / "slow-cc"  # long enough for progress to be shown
    slow.write_text('#!/bin/sh\nsleep 1.2\nexec cc "$@"\n')
    slow.chmod(0o755)
    quiet = wick("build", "-q", "relu.c", "-o", "relu.so", "--cc", str(slow))
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert "wick build: [" in wick("build", "relu.c", "-o", "relu.so", "--cc", str(slow)).stderr
    for file in ("relu.so", "relu.c"):
        done = wick("list", file)
        assert done.returncode == 0
        assert done.stdout == "local.relu  x: T[*N] -> y: T[*N] where T: f32 f64\n"


def test_the_module_needs_nothing_of_ours(wick):
    assert wick("build", "--native", "relu.c", "-o", "relu.so").returncode == 0
    ctypes.CDLL(str(wick.folder / "relu.so"))
    needed = subprocess.run(
        ["readelf", "-d", wick.folder / "relu.so"], capture_output=True, text=True, check=True
    )
    libraries = [line.split("[")[1] for line in needed.stdout.splitlines() if "(NEEDED)" in line]
    assert all(name.startswith(("libc.", "libm.")) for name in libraries), libraries


def test_columns_are_aligned(wick):
    second = RELU[RELU.index("WICK_OP") :].replace("relu", "rectified")
    (wick.folder / "other.c").write_text(RELU + second)
    lines = wick("list", "other.c").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].index("x: T") == lines[1].index("x: T")


def test_namespace(wick):
    assert wick("build", "relu.c", "--namespace", "acme", "-o", "a.so").returncode == 0
    assert wick("list", "a.so").stdout.startswith("acme.relu ")
    done = wick("build", "relu.c", "--namespace", "aten", "-o", "b.so")
    assert done.returncode == 1 and not (wick.folder / "b.so").exists()
    assert done.stderr.startswith("wick build: relu.c:1: the namespace aten belongs to torch")


def test_a_source_error_names_file_and_line(wick):
    (wick.folder / "bad.c").write_text(RELU.replace("return WICK_OK", "return zz"))
    done = wick("build", "bad.c", "-o", "bad.so")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("wick build: bad.c:10:")
    assert "return zz;" in done.stderr and not (wick.folder / "bad.so").exists()


def test_a_missing_file_and_a_foreign_library(wick):
    assert wick("build", "gone.c", "-o", "x.so").stderr.startswith("wick build: gone.c:1: ")
    (wick.folder / "text.so").write_text("not a library")
    done = wick("list", "text.so")
    assert done.returncode == 1
    assert done.stderr == "wick list: text.so: not a Wick module (not a shared object)\n"
    libc = pathlib.Path("/proc/self/maps").read_text().split("libc.so")[0].split()[-1]
    shutil.copy(libc + "libc.so.6", wick.folder / "foreign.so")
    done = wick("list", "foreign.so")
    assert done.returncode == 1 and "not a Wick module" in done.stderr
    assert wick("build", "relu.c", "-o", "whole.so").returncode == 0
    whole = (wick.folder / "whole.so").read_bytes()
    (wick.folder / "cut.so").write_bytes(whole[:4000])
    done = wick("show", "cut.so")
    assert done.returncode == 1 and "cut.so: truncated: build or copy it again" in done.stderr


@pytest.mark.parametrize("verb", ["list", "show"])
def test_a_folder_is_no_file(wick, verb):
    (wick.folder / "some.ops").mkdir()
    done = wick(verb, "some.ops")
    assert done.returncode == 1
    assert done.stderr == f"wick {verb}: some.ops: a folder, expected a source or a module\n"


def test_one_bad_file_does_not_hide_the_others(wick):
    done = wick("list", "gone.c", "relu.c")
    assert done.returncode == 1
    assert "gone.c:1:" in done.stderr and done.stdout.startswith("local.relu ")


def test_a_missing_compiler(wick):
    done = wick("build", "relu.c", "-o", "x.so", "--cc", "no-such-cc")
    assert done.returncode == 1 and '"no-such-cc"' in done.stderr


def test_show(wick):
    done = wick("show", "relu.c")
    assert done.returncode == 0
    assert done.stdout.startswith(
        "relu -- max(x, 0)\n\nNaN stays NaN.\n\nrelu(x: T[*N]) -> y: T[*N]\n"
    )
    assert "tensor of f32 or f64" in done.stdout
    assert wick("show", "relu.c", "--schema").stdout == "relu(Tensor x) -> Tensor\n"
    prototype = "wick_status relu_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"
    assert wick("show", "relu.c", "--prototype").stdout == prototype
    assert "\ndef relu(x: Tensor" in wick("show", "relu.c", "--stub").stdout


def test_show_glue(wick):
    done = wick("show", "relu.c", "--glue", "--types", "f64")
    assert done.returncode == 0
    assert "#define WICK_T 4\n" in done.stdout and done.stdout.endswith('#include "relu.c"\n')
    assert wick("show", "relu.c", "--glue", "--types", "i8").returncode == 1


def test_keep_and_verbose(wick):
    done = wick("build", "relu.c", "-o", "x.so", "--keep", "-v", TMPDIR=str(wick.folder))
    assert done.returncode == 0 and "wick build: [" in done.stderr
    kept = done.stderr.split("the generated files are in ")[1].splitlines()[0]
    assert (pathlib.Path(kept) / "unit0.c").exists()


def test_hostile_names_are_only_names(wick):
    name = "a b; touch x $(touch y) '.c"
    (wick.folder / name).write_text(RELU)
    assert wick("build", name, "-o", "out %s.so").returncode == 0
    assert wick("list", "out %s.so").stdout.startswith("local.relu ")
    assert not (wick.folder / "x").exists() and not (wick.folder / "y").exists()
    (wick.folder / "-dash.c").write_text(RELU)
    assert wick("build", "-o", "dash.so", "--", "-dash.c").returncode == 0


def test_shipped_operators(wick):
    done = wick("list")
    if "wick_ops.so was not found" in done.stderr:
        pytest.skip("this command runs from a build folder without shipped operators")
    assert done.returncode == 0 and "wick.relu " in done.stdout
    assert wick("show", "relu", "--schema").stdout.startswith("relu(Tensor x")
    nearest = wick("show", "relo")
    assert nearest.returncode == 1 and 'did you mean "relu"?' in nearest.stderr


# ---- build: debug, sanitize, progress ----


def compiler_log(folder):
    """A compiler that writes down what it is told, one line per run."""
    script = folder / "logged-cc"
    script.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(folder))}/log\nexec cc "$@"\n')
    script.chmod(0o755)
    return script


def flags_of(log):
    return {word for line in log.read_text().splitlines() for word in line.split()}


@pytest.mark.parametrize(
    "args, environment, debug",
    [
        ([], {}, False),
        (["--debug"], {}, True),
        ([], {"DEBUG": "1"}, True),
        ([], {"DEBUG": "yes"}, True),
        ([], {"DEBUG": "0"}, False),
        ([], {"DEBUG": ""}, False),
    ],
)
def test_debug(wick, args, environment, debug):
    cc = compiler_log(wick.folder)
    assert (
        wick("build", "relu.c", "-o", "x.so", "--cc", str(cc), *args, **environment).returncode == 0
    )
    flags = flags_of(wick.folder / "log")
    assert ({"-O0", "-g", "-DWICK_DEBUG=1"} <= flags) == debug
    assert ("-O3" in flags) != debug


def has_sanitizers(cc):
    """Their library is a package of its own, which the compiler does without."""
    if not shutil.which(cc):
        return False
    library = [cc, f"-print-file-name=libclang_rt.asan-{os.uname().machine}.a"]
    found = subprocess.run(library, capture_output=True, text=True, check=True).stdout.strip()
    return os.path.isabs(found) and os.path.exists(found)


def test_sanitize(wick):
    cc = compiler_log(wick.folder)
    done = wick("build", "relu.c", "-o", "x.so", "--sanitize", "--sanitize", "--cc", str(cc))
    assert done.returncode == 0, done.stderr
    assert "-fsanitize=address,undefined" in flags_of(wick.folder / "log")
    first = (wick.folder / "log").read_text().splitlines()[0].split()
    assert first.count("-fsanitize=address,undefined") == 1
    symbols = subprocess.run(["nm", "-D", wick.folder / "x.so"], capture_output=True, text=True)
    assert "__asan_report_load" in symbols.stdout
    if has_sanitizers("clang-14"):
        done = wick("build", "-q", "relu.c", "-o", "y.so", "--sanitize", "--cc", "clang-14")
        assert (done.returncode, done.stderr) == (0, "")


def slow_compiler(folder):
    script = folder / "slow-cc"
    script.write_text('#!/bin/sh\nsleep 1.4\nexec cc "$@"\n')
    script.chmod(0o755)
    return script


def test_progress_after_a_second(wick):
    done = wick("build", "relu.c", "-o", "x.so", "--cc", str(slow_compiler(wick.folder)))
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"wick build: \[\d/\d\] (relu\.c|linking)", lines[0]), lines
    assert lines[-1].startswith("wick build: built 1 operator")
    quick = wick("build", "relu.c", "-o", "x.so")
    assert "[" not in quick.stderr


def test_progress_on_a_terminal(wick):
    import pty

    ours, theirs = pty.openpty()
    cc = slow_compiler(wick.folder)
    command = [wick.command, "build", "--native", "relu.c", "-o", "x.so", "--cc", str(cc)]
    with subprocess.Popen(command, cwd=wick.folder, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:  # how a terminal tells that nobody has it open any more
            pass
        assert process.wait() == 0
    os.close(ours)
    # One line, drawn over itself, and gone when the summary comes.
    assert b"\r\x1b[Kwick build: [" in said and b"\r\x1b[Kwick build: built 1 operator" in said
    assert said.count(b"\n") == 1


# ---- show --flags ----


def test_every_flag_is_listed_with_its_reason(wick):
    cc = compiler_log(wick.folder)
    for args in (["--debug"], ["--sanitize"], ["--native"], ["--depfile", "x.d"]):
        done = wick("build", "relu.c", "-o", "x.so", "--cc", str(cc), *args)
        assert done.returncode == 0, done.stderr
    shown = wick("show", "--flags")
    assert shown.returncode == 0
    listed = dict(re.findall(r"^  (-\S+)(?: [A-Z]+)? +(\S.*)$", shown.stdout, re.M))
    given = {word for word in flags_of(wick.folder / "log") if word.startswith("-")}
    assert len(given) > 20
    assert given <= set(listed), given - set(listed)
    assert all(len(why) > 8 for why in listed.values())


def test_flags_say_what_they_come_to_here(wick):
    lines = wick("show", "--flags", CC="cc", CFLAGS="-funroll-loops").stdout.splitlines()
    assert lines[0] == "compiler  cc"
    version = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    assert lines[1] == f"version   {version.splitlines()[0]}"
    assert re.fullmatch(r"cpu       -m(arch|cpu)=native is [\w.+-]+", lines[2]), lines[2]
    assert any("$CFLAGS" in line and line.endswith(" -funroll-loops") for line in lines)
    done = wick("show", "--flags", "--cc", "no-such-cc")
    assert done.returncode == 1 and '"no-such-cc"' in done.stderr


# ---- build --compile-commands ----

CHOICES = """#include <wick/op.h>
WICK_OP(pick, "x: T[N], at: U[N], mode: 'sum'|'mean' = 'sum' -> y: T[N]"
              " where T: f16 f32, U: i32 i64");
WICK_IMPL wick_status pick_cpu(wick_ctx *ctx, const T *x, const U *at, int mode, T *y, int64_t N)
{
    (void)ctx;
    switch (mode) {
    case WICK_mode_sum: break;
    case WICK_mode_mean: break;
    }
    for (int64_t i = 0; i < N; i++) y[i] = wick_T(wick_A(x[at[i]]));
    return WICK_OK;
}
"""


def test_an_editor_understands_operator_files(wick):
    (wick.folder / 'cho "ices.c').write_text(CHOICES)
    done = wick("build", "relu.c", 'cho "ices.c', "--compile-commands", "editor")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    entries = json.loads((wick.folder / "editor/compile_commands.json").read_text())
    assert [pathlib.Path(e["file"]).name for e in entries] == ["relu.c", 'cho "ices.c']
    for compiler in filter(shutil.which, ("cc", "clang-14", "clang")):
        for entry in entries:
            command = [compiler, *entry["arguments"][1:], "-Werror"]
            assert "-fsyntax-only" in command
            read = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
            assert read.returncode == 0, read.stderr
            # What it found is what the file says: without the definitions it would not compile.
            bare = [word for word in command if not word.startswith("-D")]
            if "ices" in entry["file"]:
                assert subprocess.run(bare, cwd=entry["directory"], capture_output=True).returncode
    settings = (wick.folder / "editor/.clangd").read_text()
    assert settings.startswith("# Written by `wick build") and "CompilationDatabase: ." in settings
    again = wick("build", "relu.c", "--compile-commands", "editor")
    assert again.returncode == 0
    assert len(json.loads((wick.folder / "editor/compile_commands.json").read_text())) == 1


@pytest.mark.parametrize("name", ["compile_commands.json", ".clangd"])
def test_other_peoples_editor_files_stay(wick, name):
    (wick.folder / name).write_text("[]")
    done = wick("build", "relu.c", "--compile-commands", ".")
    assert done.returncode == 1 and f"./{name} is there and is not Wick's" in done.stderr
    assert (wick.folder / name).read_text() == "[]"


# ---- config ----


def test_config(wick):
    done = wick("config", "--version", "--include", "--cflags", WICK_INCLUDE="/a b")
    assert done.returncode == 1 and done.stderr.startswith('wick config: cannot find "/a b"')
    (wick.folder / "a b").mkdir()
    include = str(wick.folder / "a b")
    done = wick("config", "--version", "--include", "--cflags", WICK_INCLUDE=include)
    version = wick("--version").stdout.split()[1]
    assert done.stdout.splitlines() == [version, include, "-I" + include.replace(" ", "\\ ")]
    names = [line.split()[0] for line in wick("config").stdout.splitlines()]
    assert names == ["cflags", "include", "libs", "cmake", "version"]


HOST = """#include <wick/wick.h>
#include <stdio.h>
int main(void) { return puts(wick_version()) < 0; }
"""


def test_config_builds_a_program(wick):
    (wick.folder / "host.c").write_text(HOST)
    flags = shlex.split(wick("config", "--cflags", "--libs").stdout)
    subprocess.run(["cc", "host.c", *flags, "-o", "host"], cwd=wick.folder, check=True)
    said = subprocess.run([wick.folder / "host"], capture_output=True, text=True, check=True)
    assert said.stdout.split() == wick("config", "--version").stdout.split()


def test_config_cmake(wick):
    done = wick("config", "--cmake")
    if done.returncode:
        assert "wick-config.cmake was not found" in done.stderr
        pytest.skip("this command runs from a build folder")
    assert (pathlib.Path(done.stdout.strip()) / "wick-config.cmake").exists()


# ---- cache ----


@pytest.fixture
def filled(wick):
    """A cache with one source in two element types, filled by wick.load."""
    code = """import torch, wick
relu = wick.load("relu.c").relu
relu(torch.ones(2)), relu(torch.ones(2).double())"""
    environment = {**os.environ, "WICK_CACHE_DIR": str(wick.folder / "cache")}
    subprocess.run([sys.executable, "-c", code], cwd=wick.folder, env=environment, check=True)
    return wick


def test_cache_of_nothing(wick):
    assert wick("cache").stdout == f"{wick.folder}/cache/v1\n0 modules in 0 files, 0 B\n"
    assert wick("cache", "path").stdout == f"{wick.folder}/cache/v1\n"
    assert wick("cache", "list").stdout == ""
    assert json.loads(wick("cache", "list", "--json").stdout) == []
    assert wick("cache", "verify").stdout == "0 entries, all whole\n"
    assert wick("cache", "clear").stdout == "removed 0 files\n"


def test_cache_list(filled):
    lines = filled("cache", "list").stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"[0-9a-f]{12} +\d+\.\d kB +\d+ (s|min)  f(32|64)  +relu\.c", line), (
            line
        )
    rows = json.loads(filled("cache", "list", "--json").stdout)
    assert {row["types"] for row in rows} == {"f32", "f64"}
    assert {row["source"] for row in rows} == {"relu.c"}
    assert {row["operators"] for row in rows} == {"relu"}
    assert all(len(row["key"]) == 32 and row["bytes"] > 1000 for row in rows)
    assert abs(rows[0]["used"] - time.time()) < 300


def test_looking_is_not_using(filled):
    files = list((filled.folder / "cache/v1").iterdir())
    for path in files:
        os.utime(path, (1e9, 1e9))
    for word in ("list", "size", "verify"):
        assert filled("cache", word).returncode == 0
    assert {path.stat().st_mtime for path in files} == {1e9}


def test_cache_size(filled):
    files = list((filled.folder / "cache/v1").iterdir())
    size = json.loads(filled("cache", "size", "--json").stdout)
    assert size == {
        "path": f"{filled.folder}/cache/v1",
        "modules": 2,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }
    assert filled("cache", "size").stdout.startswith(f"2 modules in {len(files)} files, ")


def test_cache_survives_notes_it_cannot_read(filled):
    note, other = sorted((filled.folder / "cache/v1").glob("*.note"))
    note.write_bytes(b"\0garbage")
    other.chmod(0)
    (filled.folder / "cache/v1/README").write_text("hello")
    rows = json.loads(filled("cache", "list", "--json").stdout)
    assert len(rows) == 2 and None in [row["source"] for row in rows]
    assert filled("cache", "list").stdout.splitlines()[0].split()[-1] in ("-", "relu.c")


def test_cache_verify_removes_what_is_broken(filled):
    module = next((filled.folder / "cache/v1").glob("*.so"))
    content = bytearray(module.read_bytes())
    content[len(content) // 2] ^= 1
    module.write_bytes(content)
    done = filled("cache", "verify")
    assert done.returncode == 1
    assert done.stdout == "4 entries; 1 was broken and will be built anew\n"
    assert not module.exists()
    assert filled("cache", "verify").stdout == "3 entries, all whole\n"


def test_cache_clear(filled):
    n = len(list((filled.folder / "cache/v1").iterdir()))
    assert filled("cache", "clear").stdout == f"removed {n} files\n"
    assert list((filled.folder / "cache/v1").iterdir()) == []


@pytest.mark.parametrize("word", ["path", "list", "size", "verify", "clear"])
def test_a_cache_that_others_can_write_is_refused(wick, word):
    folder = wick.folder / "cache"
    folder.mkdir()
    folder.chmod(stat.S_IRWXU | stat.S_IWGRP)
    done = wick("cache", word)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"wick cache: the cache {folder} can be written by other users")
    assert "chmod go-w" in done.stderr


def test_a_cache_that_cannot_be(wick):
    (wick.folder / "file").write_text("")
    done = wick("cache", "size", WICK_CACHE_DIR=str(wick.folder / "file"))
    assert done.returncode == 1 and "is not a folder" in done.stderr
    done = wick("cache", "size", WICK_CACHE_DIR="/proc/nowhere")
    assert done.returncode == 1 and "cannot be used" in done.stderr


def test_cache_list_of_a_name_that_is_not_utf8(wick):
    name = 'a "b\udcff.c'
    (wick.folder / name).write_text(RELU)
    code = "import sys, torch, wick; wick.load(sys.argv[1]).relu(torch.ones(2))"
    environment = {**os.environ, "WICK_CACHE_DIR": str(wick.folder / "cache")}
    subprocess.run([sys.executable, "-c", code, name], cwd=wick.folder, env=environment, check=True)
    command = [wick.command, "cache", "list"]
    said = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert said.rstrip().endswith(b'a "b\xff.c')
    said = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=True)
    assert json.loads(said.stdout)[0]["source"] == name


# ---- the verbs that are Python ----


def test_new_starts_without_torch(wick, tmp_path):
    if wick("config", "--cmake").returncode:
        pytest.skip("this command runs from a build folder without the Python package")
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    (tmp_path / "wick.py").write_text("raise SystemExit('wick was imported')")
    done = wick("new", "softclip", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "softclip.c").exists()
    done = wick("doctor", "compiler", "--json", PYTHONPATH=str(tmp_path))
    assert json.loads(done.stdout)["findings"], done.stderr
    assert wick("new").returncode == 2


def test_python_dash_m_wick_is_the_command(wick):
    def run(*args):
        command = [sys.executable, "-m", "wick", *args]
        return subprocess.run(command, cwd=wick.folder, capture_output=True, text=True)

    if not (pathlib.Path(sys.executable).parent / "wick").exists():
        pytest.skip("the command is not installed beside this Python")
    assert run("list", "relu.c").stdout == wick("list", "relu.c").stdout
    assert run("new", "--help").stdout == wick("new", "--help").stdout
    assert run("new", "softclip").returncode == 0 and (wick.folder / "softclip.c").exists()
    assert run("frobnicate").returncode == 2


def test_no_module_of_the_package_hides_pythons_own():
    """Run by path, a script has its folder in front of the standard library."""
    package = pathlib.Path(__file__).resolve().parents[2] / "python" / "wick"
    assert (package / "cli_new.py").exists()
    assert not {path.stem for path in package.iterdir()} & set(sys.stdlib_module_names)


def test_a_missing_python(wick):
    if wick("config", "--cmake").returncode:
        pytest.skip("this command runs from a build folder without the Python package")
    package = pathlib.Path(wick("config", "--cmake").stdout.strip()).parent
    (wick.folder / "bin").mkdir()
    shutil.copy(wick.command, wick.folder / "bin/wick")
    (wick.folder / "cli_new.py").symlink_to(package / "cli_new.py")
    command = [wick.folder / "bin/wick", "new", "softclip"]
    done = subprocess.run(command, env={"PATH": "/nowhere"}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("wick new: no Python was found")


def test_a_killed_build_leaves_the_terminal_alone(wick):
    """Ctrl-C ends command and compilers; the module is not there in part."""
    command = [
        wick.command,
        "build",
        "relu.c",
        "-o",
        "x.so",
        "--cc",
        str(slow_compiler(wick.folder)),
    ]
    heard = functools.partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # also in the background
    with subprocess.Popen(
        command, cwd=wick.folder, stderr=subprocess.DEVNULL, preexec_fn=heard
    ) as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
    assert not (wick.folder / "x.so").exists()
