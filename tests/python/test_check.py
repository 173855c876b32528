"""`wick check` as a person meets it: exit codes, reports, reproducing, references, the plugin."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from support import build_module

import wick
import wick.testing
from wick.check.crew import Crew
from wick.check.follow import NOT_AGAIN
from wick.check.records import Options, Report, Target
from wick.check.report import lines
from wick.check.run import check as check_with

TRIPLE = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(triple, "x: T[*N], by: float = 3.0 -> y: T[*N] where T: f32 f64");
WICK_IMPL wick_status triple_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = (T)(by * x[i]) + (T)(FAULT == 1 && i == 12);
    return WICK_OK;
}
"""
REFERENCE = "def triple(x, by=3.0):\n    return by * x\n"

QUICK: dict[str, Any] = {"only": ["forward", "memory"], "depth": "quick", "jobs": 1}
CREW = Crew()  # one process for all tests


def check(targets: list[Target], options: Options) -> Report:
    return check_with(targets, options, crew=CREW)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write(text, reference) makes NAME.c and NAME.py in a folder of their own."""

    def make(text: str = TRIPLE, reference: str | None = REFERENCE, name: str = "triple") -> Path:
        path = tmp_path / f"{name}.c"
        path.write_text(text)
        if reference is not None:
            path.with_suffix(".py").write_text(reference)
        return path

    return make


def judged(path: Path | str, flags: tuple[str, ...] = (), **options: Any) -> Report:
    target = Target(str(path), label=str(path), flags=flags)
    return check([target], Options(**{**QUICK, **options}))


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wick", "check", *words],
        capture_output=True,
        text=True,
        timeout=300,
        **more,
    )


# ---- the command ----


def test_a_small_case_is_judged_by_all_who_can(write: Callable[..., Path]) -> None:
    path = write()
    done = run(str(path), "--case", "triple T:f32 N=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "COULD NOT CHECK" not in done.stdout and "leak " in done.stdout


UPTO = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
#if FAULT == 1
typedef int place;
#else
typedef int64_t place;
#endif
WICK_OP(upto, "x: f32[B, S, V], length: i64[B] -> y: f32[B]");
WICK_IMPL wick_status upto_cpu(wick_ctx *ctx, const float *x, const int64_t *length, float *y,
                               int64_t B, int64_t S, int64_t V)
{
    for (int64_t b = 0; b < B; b++)
        if (length[b] < 1 || length[b] > S || V < 1)
            return wick_fail(ctx, WICK_EINVAL, "length[%d] is %d", (int)b, (int)length[b]);
    for (int64_t b = 0; b < B; b++) {
        const int64_t at = (b * S + length[b] - 1) * V;
        y[b] = x[(place)at];
    }
    return WICK_OK;
}
"""
UPTO_REFERENCE = """\
import torch
def upto(x, length):
    if length.numel() and (length.min() < 1 or length.max() > x.shape[1]) or x.shape[2] < 1:
        raise ValueError("length")
    return x[torch.arange(len(length)), length - 1, 0]
def upto_inputs(B, S):
    return {"length": torch.randint(1, S + 1, (B,)) if S else torch.zeros(B, dtype=torch.int64)}
"""


@pytest.mark.parametrize("fault", [0, 1])
def test_lengths_that_are_made_are_made_for_huge_tensors_as_well(
    write: Callable[..., Path], fault: int
) -> None:
    path = write(UPTO, UPTO_REFERENCE, "upto")
    report = judged(path, (f"-DFAULT={fault}",), only=["huge"], depth="default")
    assert report.code == fault, [line for line, _ in lines(report)]
    assert "huge" in report.subjects[0].tallies


def test_junit_goes_to_a_file(write: Callable[..., Path], tmp_path: Path) -> None:
    done = run(str(write()), "--junit", "-", cwd=tmp_path)
    assert done.returncode == 2 and "--junit: -: expected the name of a file" in done.stderr
    assert not (tmp_path / "-").exists()


def test_what_an_operator_leaves_running_ends_with_the_check(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    left = tmp_path / "left"
    path = write(
        "#include <wick/op.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'WICK_OP(triple, "x: f32[N] -> y: f32[N]");\n'
        "WICK_IMPL wick_status triple_cpu(wick_ctx *c, const float *x, float *y, int64_t N)\n"
        "{\n    (void)c;\n    if (N == 7 && fork() == 0) {\n"
        f'        FILE *f = fopen("{left}", "a");\n'
        '        if (f) fprintf(f, "%d\\n", (int)getpid()), fclose(f);\n'
        "        for (;;) pause();\n    }\n"
        "    for (int64_t i = 0; i < N; i++) y[i] = 3 * x[i];\n    return WICK_OK;\n}\n"
    )
    run(str(path), "--only", "forward", "--depth", "quick")
    pids = left.read_text().split()
    assert pids
    for pid in pids:
        for _ in range(100):
            if is_gone(int(pid)):
                break
            time.sleep(0.05)
        assert is_gone(int(pid)), pid


def is_gone(pid: int) -> bool:
    """Or dead, and nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_fault_is_printed_with_a_line_that_shows_it_again(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write()
    out, junit = tmp_path / "found.json", tmp_path / "found.xml"
    narrow = ["--only", "forward", "--depth", "quick", "--types", "f32"]
    files = ["--json", str(out), "--junit", str(junit)]
    done = run(str(path), "--flags=-DFAULT=1", *narrow, *files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAULT forward: triple (f32)" in done.stdout
    assert "y[12] is " in done.stdout and "1 of 13 elements of y are wrong" in done.stdout
    assert "wick check: " in done.stderr  # how far it is, where nobody watches a terminal
    found = json.loads(out.read_text())
    (fault,) = found["faults"]
    assert fault["case"] == "triple T:f32 N=13" and found["code"] == 1
    assert fault["reproduce"] in done.stdout
    suites = ElementTree.parse(junit).getroot()
    assert suites.find(".//failure") is not None
    # The line as printed, in a shell.
    command = shlex.join([sys.executable, "-m", *fault["reproduce"].split(" ", 1)[:1]])
    again = subprocess.run(
        ["bash", "-c", f"{command} {fault['reproduce'].split(' ', 1)[1]}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert again.returncode == 1 and "y[12] is " in again.stdout, again.stdout + again.stderr
    sound = fault["reproduce"].replace("-DFAULT=1", "-DFAULT=0")
    fine = subprocess.run(
        ["bash", "-c", f"{command} {sound.split(' ', 1)[1]}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert fine.returncode == 0, fine.stdout + fine.stderr


def test_a_case_that_was_asked_for_is_judged_as_it_is(write: Callable[..., Path]) -> None:
    found = judged(write(), ("-DFAULT=1",), case="triple T:f32 N=500 seed=3")
    (fault,) = found.faults
    assert fault.case.dims == {"N": (500,)} and fault.count == 1 and found.cases == 1


def test_without_faults_the_code_is_0_and_json_may_go_to_stdout(write: Callable[..., Path]) -> None:
    path = write()
    done = run(path.name, "--only", "forward,memory", "--depth=quick", "--json=-", cwd=path.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["code"] == 0 and found["faults"] == [] and found["unchecked"] == []
    judges = found["operators"][0]["judges"]
    assert judges["forward"]["cases"] > 50 and judges["memory"]["cases"] > 50


@pytest.mark.parametrize(
    "words, said",
    [
        (["--only", "nothing"], "nothing is no judge; there are forward, gradient,"),
        (["--types", "f99"], "f99 is no element type"),
        (["--depth", "deep"], "invalid choice: 'deep'"),
        (["--sead", "1"], "unrecognized arguments"),
    ],
)
def test_what_is_asked_wrongly_is_told(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr


def test_what_is_not_there_cannot_be_checked(tmp_path: Path) -> None:
    report = check(
        [Target(None, ("rellu",), label="rellu"), Target(str(tmp_path / "no.c"), label="no.c")],
        Options(jobs=1),
    )
    assert report.code == 2
    words = "\n".join(report.unjudged())
    assert "rellu: there is no operator rellu" in words and "no.c" in words


def test_a_source_that_does_not_build_cannot_be_checked(write: Callable[..., Path]) -> None:
    report = judged(write(TRIPLE.replace("(void)ctx;", "(void)contex;")))
    assert report.code == 2
    assert "triple.c:8:" in report.unjudged()[0] and "contex" in report.unjudged()[0]


def test_shipped_operators_are_checked_by_name() -> None:
    report = check([Target(None, ("mul",), label="mul")], Options(**QUICK, types=["bf16"]))
    assert report.code == 0
    assert [s.name for s in report.subjects] == ["mul", "mul_backward"]
    assert report.subjects[0].reference is not None
    assert report.subjects[0].tallies["forward"].worst <= 1


def test_a_module_is_checked_with_a_reference_from_elsewhere(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(reference=None)
    (tmp_path / "apart").mkdir()
    module = build_module(tmp_path / "apart" / "ops.so", path)
    path.unlink()
    assert judged(module, types=["f64"]).code == 2
    given = tmp_path / "given.py"
    given.write_text(REFERENCE)
    assert judged(module, reference=str(given)).code == 0
    beside = tmp_path / "apart" / "triple.py"
    beside.write_text(REFERENCE.replace("by * x", "by * x + 1"))
    assert judged(module).code == 1


# ---- references ----


def test_without_a_reference_the_widest_type_says_what_is_right(write: Callable[..., Path]) -> None:
    wrong = TRIPLE.replace("FAULT == 1", "WICK_T == 3")
    report = judged(write(wrong, None))
    assert report.code == 1 and report.faults[0].case.types == {"T": "f32"}
    report = judged(write(TRIPLE, None))
    assert not report.faults and report.subjects[0].tallies["forward"].cases > 50
    assert report.code == 2  # all of them may be wrong
    assert "judged against its own widest type alone: there is no ref" in report.unjudged()[0]


BROKEN = {
    "def tripel(x, by=3.0):\n    return by * x\n": "r.py: has no function triple",
    "def triple(x, by=3.0):\n    by * x\n": "r.py: triple returns nothing",
    "def triple(x, by=3.0):\n    return by * y\n": "r.py:2: NameError",
    "def triple(x, by=3.0):\n    raise SystemExit(3)\n": "r.py:2: SystemExit: 3",
    "def triple(x, by=3.0:\n": "r.py:1: SyntaxError",
    "def triple(x, by=3.0):\n    raise ValueError('no')\n": "the reference has no answer (no)",
    "import os\ndef triple(x, by=3.0):\n    os._exit(3)\n": "the reference ends the process",
}


@pytest.mark.parametrize("case", [None, "triple T:f32 N=3"], ids=["all", "case"])
@pytest.mark.parametrize("text", BROKEN, ids=BROKEN.values())
def test_a_reference_that_says_nothing_proves_nothing(
    write: Callable[..., Path], tmp_path: Path, text: str, case: str | None
) -> None:
    given = tmp_path / "r.py"
    given.write_text(text)
    report = judged(write(), reference=str(given), only=["forward"], case=case)
    assert report.code == 2 and not report.faults
    assert BROKEN[text] in report.unjudged()[0]


def test_what_a_reference_leaves_unanswered_is_told(write: Callable[..., Path]) -> None:
    some = REFERENCE.replace(
        "    ret", "    if x.numel() > 2:\n        raise ValueError('large')\n    ret"
    )
    report = judged(write(reference=some), types=["f32"])
    assert report.code == 0
    line, hint = [words for words, _ in lines(report) if "no answer" in words]
    assert re.fullmatch(r"  no answer \d+ cases: large", line)
    assert "most cases have no answer: triple_inputs beside the reference may make others" in hint


COUNT = """\
#include <wick/op.h>
WICK_OP(count, "x: T[N], i: i64[N], room: int = 9 -> y: T[N] where T: f32 f64");
WICK_IMPL wick_status count_cpu(wick_ctx *ctx, const T *x, const int64_t *i, int64_t room, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t k = 0; k < N; k++) {
        if (i[k] < 0 && room != 9) __builtin_trap(); /* not what it is for */
        y[k] = x[k];
    }
    return WICK_OK;
}
"""
COUNTS = """\
import torch
def count(x, i, room=9):
    if (i < 0).any() and room != 9:
        raise IndexError("i")
    return x
def count_inputs(N):
    i = torch.randint(0, 9, (N,))
    i[torch.rand(N) < 0.5] = -100
    return {"i": i}
"""


def test_only_what_the_reference_answers_is_asked_of_the_operator(
    write: Callable[..., Path],
) -> None:
    """Or it is blamed for inputs that it is not for: by any judge."""
    judges = ["memory", "repeat", "threads", "leak"]
    report = judged(write(COUNT, COUNTS, name="count"), only=judges, types=["f32"])
    assert not report.faults and report.code == 0


TRAP = TRIPLE.replace("y[i] =", "if (!(x[i] > 0)) __builtin_trap(); else y[i] =")
ABOVE = """\
def triple(x, by=3.0):
    if not bool((x > 0).all()):
        raise ValueError("x must be above 0")
    return by * x
"""


def test_opcheck_and_huge_ask_the_reference_too(write: Callable[..., Path]) -> None:
    path = write(TRAP, ABOVE)
    report = judged(path, only=["opcheck", "huge"], depth="default", types=["f32"])
    assert not report.faults, report.faults
    assert report.subjects[0].tallies["opcheck"].cases == 1
    words = report.subjects[0].tallies["skipped-huge"].skipped
    assert list(words) == ["unanswered: x must be above 0"]


def test_a_reference_that_is_not_made_for_nothing_has_no_answer(write: Callable[..., Path]) -> None:
    """As torch's convolution, which returns another shape where there are no channels."""
    other = "def triple(x, by=3.0):\n    return by * x if x.numel() else x.new_zeros(4, 0, 7)\n"
    report = judged(write(TRIPLE, other))
    assert report.code == 0
    words = {w for t in report.subjects[0].tallies.values() for w in t.skipped}
    assert "unanswered: the reference's y has shape [4, 0, 7], expected [0]" in words
    wrong = "def triple(x, by=3.0):\n    return (by * x)[None]\n"
    assert {f.kind for f in judged(write(TRIPLE, wrong)).faults} == {"shape"}


def test_who_ends_the_process_in_making_inputs_is_the_reference(write: Callable[..., Path]) -> None:
    ends = f"{REFERENCE}import os\ndef triple_inputs(N):\n    os._exit(3)\n"
    report = judged(write(TRIPLE, ends))
    assert not report.faults and report.code == 2
    assert "the reference ends the process (exit status 3)" in "".join(report.unjudged())


def test_a_fault_whose_scalars_have_no_default_is_made_small(write: Callable[..., Path]) -> None:
    source = TRIPLE.replace("by: float = 3.0", "by: float, how: str")
    source = source.replace("double by, T *y", "double by, const char *how, T *y")
    source = source.replace("(void)ctx;", "(void)ctx, (void)how;").replace("FAULT == 1", "1")
    path = write(source, "def triple(x, by, how):\n    return by * x\n")
    report = judged(path, types=["f32"])
    assert not report.errors, report.errors
    (fault,) = report.faults
    assert fault.case.dims == {"N": (13,)}
    again = judged(path, case=fault.case.text())
    assert [f.title for f in again.faults] == [fault.title]


SLOW = """\
#include <wick/op.h>
#include <time.h>
WICK_OP(triple, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status triple_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    const clock_t end = clock() + (N == 33 ? 5 : 0) * CLOCKS_PER_SEC / 2;
    (void)ctx;
    while (clock() < end)
        continue;
    for (int64_t i = 0; i < N; i++)
        y[i] = 3 * x[i];
    return WICK_OK;
}
"""


def test_a_slow_call_is_not_taken_for_one_that_hangs(write: Callable[..., Path]) -> None:
    """Where several are needed, it is told that they were not made."""
    path = write(SLOW, "def triple(x):\n    return 3 * x\n")
    for judge in ("threads", "leak", "repeat"):
        report = judged(path, only=[judge], case="triple N=33")
        assert not report.faults, report.faults
        told = {w for t in report.subjects[0].tallies.values() for w in t.skipped}
        assert any(re.fullmatch(r"a call takes \d\.\d s, and several are needed", w) for w in told)


def test_a_call_that_is_refused_has_written_nothing(write: Callable[..., Path]) -> None:
    source = """\
#include <wick/op.h>
WICK_OP(triple, "x!: f32[N], by: float = 3.0 -> ()");
WICK_IMPL wick_status triple_cpu(wick_ctx *ctx, float *x, double by, int64_t N)
{
    for (int64_t i = 0; i < N; i++)
        x[i] *= (float)by;
    return by < 0 ? wick_fail(ctx, WICK_EINVAL, "by is negative") : WICK_OK;
}
"""
    report = judged(write(source, "def triple(x, by=3.0):\n    x *= by\n"), only=["memory", "leak"])
    assert "it refuses the call, but has written to x by then" in {f.title for f in report.faults}


def test_results_that_are_nan_are_no_fault_of_opcheck(write: Callable[..., Path]) -> None:
    source = TRIPLE.replace("#include", "#include <math.h>\n#include").replace(
        "by * x[i]", "sqrt((double)x[i])"
    )
    root = "import torch\ndef triple(x, by=3.0):\n    return torch.sqrt(x)\n"
    report = judged(write(source, root), only=["opcheck"])
    assert report.code == 0 and report.subjects[0].tallies["opcheck"].cases == 2
    never = source.replace("sqrt((double)x[i])", "NAN + x[i]")
    assert not judged(
        write(never, root.replace("torch.sqrt(x)", "x * float('nan')")), only=["opcheck"]
    ).faults


def test_integers_have_no_gradient_and_are_not_asked_for_it(write: Callable[..., Path]) -> None:
    source = """\
#include <wick/op.h>
WICK_OP(twice, "x: T[*N] -> y: T[*N] where T: f64 i32");
WICK_OP(twice_backward, "dy: T[*N] -> dx: T[*N]");
WICK_IMPL wick_status twice_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = 2 * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status twice_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    return twice_cpu(ctx, dy, dx, N);
}
"""
    path = write(source, "def twice(x):\n    return 2 * x\n", name="twice")
    report = judged(path, only=["forward", "gradient"])
    assert not report.faults and report.code == 0


def test_a_gradient_that_is_not_finite_may_be_left_out_or_multiplied(
    write: Callable[..., Path],
) -> None:
    source = """\
#include <wick/op.h>
WICK_OP(gate, "x: T[*N] -> y: T[*N] where T: f32 f64");
WICK_OP(gate_backward, "dy: T[*N], x: T[*N] -> dx: T[*N]");
WICK_IMPL wick_status gate_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] <= 0 ? 0 : x[i];
    return WICK_OK;
}
WICK_IMPL wick_status gate_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = dy[i] * (T)!(x[i] <= 0);
    return WICK_OK;
}
"""
    path = write(source, "import torch\ndef gate(x):\n    return torch.relu(x)\n", name="gate")
    report = judged(path, only=["forward", "gradient"])
    assert not report.faults, [f.title for f in report.faults]
    wrong = path.read_text().replace("dy[i] * (T)!(x[i] <= 0)", "dy[i] - dy[i] * (T)(x[i] <= 0)")
    path.write_text(wrong.replace("x[i] <= 0)", "x[i] < -1)"))
    assert judged(path, only=["gradient"]).code == 1


def test_a_reference_that_cannot_be_asked_again_still_says_what_is_right(
    write: Callable[..., Path],
) -> None:
    """With rounding errors no element is the largest: its index is out of bounds then."""
    source = """\
#include <wick/op.h>
WICK_OP(best, "x: T[N, C] -> at: i64[N], many: i64[N] where T: f32 f64");
WICK_IMPL wick_status best_cpu(wick_ctx *ctx, const T *x, int64_t *at, int64_t *many, int64_t N, int64_t C)
{
    if (C == 0) return wick_fail(ctx, WICK_EINVAL, "there are no columns");
    for (int64_t n = 0; n < N; n++, x += C) {
        at[n] = many[n] = 0;
        for (int64_t c = 0; c < C; c++)
            if (x[c] > x[at[n]]) at[n] = c;
        for (int64_t c = 0; c < C; c++)
            many[n] += !(x[c] != x[at[n]]) + 0 * FAULT;
        if (FAULT && at[n] > 0 && x[at[n]] < 0) at[n] -= 1;
    }
    return WICK_OK;
}
"""
    reference = """\
import torch
def best(x):
    if x.isnan().any():
        raise ValueError("NaN")
    largest = (x + 0) == x.amax(-1, keepdim=True)
    at = torch.where(largest, torch.arange(x.shape[1]), x.shape[1]).amin(-1)
    x.gather(-1, at[:, None])
    return at, largest.sum(-1)
"""
    path = write(source, reference, name="best")
    sound = judged(path, ("-DFAULT=0",), only=["forward"])
    assert sound.code == 0, [f.title for f in sound.faults]
    assert judged(path, ("-DFAULT=1",), only=["forward"]).code == 1


def test_a_reference_of_another_type_is_named(write: Callable[..., Path]) -> None:
    report = judged(write(reference=REFERENCE.replace("by * x", "(by * x).int()")), types=["f32"])
    assert report.code == 1
    assert "the reference returns torch.int32" in report.faults[0].details


@pytest.mark.parametrize(
    "asked", [{"types": ["f16"]}, {"only": ["stream"]}, {"case": "other T:f32 N=3"}], ids=str
)
def test_where_nothing_is_judged_nothing_is_sound(
    write: Callable[..., Path], asked: dict[str, Any]
) -> None:
    report = judged(write(), **asked)
    assert report.cases == 0 and report.code == 2


def test_a_case_counts_once_whatever_is_wrong_with_it(write: Callable[..., Path]) -> None:
    report = judged(write(reference=REFERENCE.replace("3.0", "2.0")), types=["f32"])
    assert all(f.count <= report.cases for f in report.faults)


def test_without_anything_to_compare_with_it_says_so(write: Callable[..., Path]) -> None:
    only = TRIPLE.replace("f32 f64", "f32")
    report = judged(write(only, None))
    assert report.code == 2 and not report.faults
    assert "triple: forward was not judged: there is no reference" in report.unjudged()[0]
    assert judged(write(only, None), only=["memory"]).code == 0


@pytest.mark.parametrize(
    "reference, words",
    [
        ("def triple(x):\n    return 3 * x\n", "triple takes no argument by"),
        ("import nonsense_there_is_none\n", "ModuleNotFoundError"),
        ("def triple(x, by=3.0):\n    return x.tripled()\n", "triple.py:2: AttributeError"),
        ("def triple(x, by=3.0):\n    return x, x\n", "returns 2 values, expected 1"),
    ],
)
def test_a_reference_that_cannot_be_used_is_told(
    write: Callable[..., Path], reference: str, words: str
) -> None:
    report = judged(write(reference=reference))
    assert report.code == 2 and words in "\n".join(report.unjudged())


def test_a_default_of_the_reference_is_not_the_operators(write: Callable[..., Path]) -> None:
    report = judged(write(reference=REFERENCE.replace("3.0", "2.0")), types=["f32"])
    assert report.code == 1
    assert report.faults[0].case.scalars == {}


def test_a_case_whose_reference_runs_out_of_memory_is_skipped_and_told(
    write: Callable[..., Path],
) -> None:
    hungry = "import torch\n" + REFERENCE.replace(
        "    return", "    if x.numel() > 500:\n        torch.empty(10**14)\n    return"
    )
    report = judged(write(reference=hungry), types=["f32"])
    assert report.code == 0
    skipped = report.subjects[0].tallies["skipped-values"].skipped
    assert any(words.startswith("out of memory") for words in skipped), skipped


TAKE = """#include <wick/op.h>
WICK_OP(take, "x: f32[N], at: U[M] -> y: f32[M] where U: u8 i16 i64");
WICK_IMPL wick_status take_cpu(wick_ctx *ctx, const float *x, const U *at, float *y, int64_t N, int64_t M)
{
    for (int64_t i = 0; i < M; i++)
        if (LOOKS && (at[i] > N - 1 + LATE || at[i] < 0))
            return wick_fail(ctx, WICK_EINVAL, "a place outside");
    for (int64_t i = 0; i < M; i++) y[i] = x[at[i]];
    return WICK_OK;
}
"""


@pytest.mark.parametrize("looks, late, code", [(0, 0, 0), (1, 0, 0), (1, 1, 1)])
def test_who_looks_at_places_refuses_the_first_outside(
    write: Callable[..., Path], looks: int, late: int, code: int
) -> None:
    """Of whatever type they are; who does not look at all, and ends with the process, is let be."""
    path = write(TAKE, "def take(x, at):\n    return x.gather(0, at.long())\n", "take")
    report = judged(path, (f"-DLOOKS={looks}", f"-DLATE={late}"), only=["refuse"])
    assert report.code == code, [f.title for f in report.faults]
    assert {t for f in report.faults for t in f.types} == ({"u8", "i16", "i64"} if code else set())


def test_what_is_refused_though_the_reference_has_an_answer_is_a_fault(
    write: Callable[..., Path],
) -> None:
    fails = 'return wick_fail(ctx, WICK_EINVAL, "N is %d", (int)N);'
    refuses = TRIPLE.replace("(void)ctx;", f"if (N == 13) {fails}")
    report = judged(write(refuses), types=["f32"])
    assert report.code == 1 and report.faults[0].case.text() == "triple T:f32 N=13"
    assert "it refuses what the reference has an answer for" in report.faults[0].title
    # A limit that is said to be one, and a scalar that nobody need ever give.
    assert judged(write(refuses.replace("EINVAL", "ENOTSUP")), types=["f32"]).code == 0
    assert judged(write(refuses.replace("N == 13", "by < 0")), types=["f32"]).code == 0


@pytest.mark.parametrize(
    "words", ["", ' wick_fail(ctx, WICK_EINVAL, "by is 0, expected another");']
)
def test_who_refuses_without_a_word_is_told_of_it(write: Callable[..., Path], words: str) -> None:
    refuses = TRIPLE.replace(
        "(void)ctx;", f"(void)ctx; if (by == 0) {{{words} return WICK_EINVAL; }}"
    )
    report = judged(write(refuses), types=["f32"], only=["leak"])
    said = {note for s in report.subjects for note in s.notes}
    assert report.code == 0 and any("without a message" in note for note in said) == (not words)


PICK = """\
#include <wick/op.h>
WICK_OP(choose, "x: f32[N], k: i64[M] -> y: f32[M]");
WICK_IMPL wick_status choose_cpu(wick_ctx *ctx, const float *x, const int64_t *k, float *y, int64_t N,
                                 int64_t M)
{
    for (int64_t m = 0; m < M; m++) {
        if (k[m] < N - 1) return wick_fail(ctx, WICK_EINVAL, "k[%d] is not the last", (int)m);
        y[m] = x[k[m]];
    }
    return WICK_OK;
}
"""


def test_inputs_that_the_operator_wants_are_made_by_the_reference_file(
    write: Callable[..., Path],
) -> None:
    rule = "def choose(x, k):\n    return x[k]\n"
    inputs = "import torch\ndef choose_inputs(N, M):\n    return {'k': torch.full((M,), N - 1)}\n"
    assert judged(write(PICK, rule + inputs, "choose")).code == 0
    report = judged(write(PICK, rule, "choose"))
    assert report.code == 1 and "is not the last" in report.faults[0].title
    wiser = "    if (k < len(x) - 1).any():\n        raise ValueError('the last alone')\n"
    report = judged(write(PICK, rule.replace("    return", wiser + "    return"), "choose"))
    assert report.code == 0  # what neither of them takes is nobody's fault


MISFITS = {
    "{'x': torch.ones(5, 4, 3, 2, 1)}": "triple_inputs: x has shape [5, 4, 3, 2, 1], expected [",
    "{'x': 'much'}": "triple_inputs: x is 'much', expected T[*N]",
    "{'by': 'much'}": "triple_inputs: by is 'much', expected float",
}


@pytest.mark.parametrize("given", MISFITS)
def test_inputs_of_the_reference_file_that_do_not_fit_are_its_mistake(
    write: Callable[..., Path], given: str
) -> None:
    inputs = f"import torch\ndef triple_inputs(N):\n    return {given}\n"
    report = judged(write(TRIPLE, REFERENCE + inputs))
    assert report.code == 2 and MISFITS[given] in report.unjudged()[0]


def test_what_the_reference_files_own_inputs_leave_out_is_told(write: Callable[..., Path]) -> None:
    """And what it raises without a word has a name."""
    wordless = "    if x.numel() == 3:\n        raise ValueError\n"
    rule = REFERENCE.replace("    return", wordless + "    return")
    inputs = "import torch\ndef triple_inputs(N):\n    return {'x': torch.ones(tuple(N))}\n"
    said = [words for words, _ in lines(judged(write(TRIPLE, rule + inputs)))]
    note = "x: made by triple_inputs, not tried with NaN and infinities"
    assert any(note in line for line in said)
    assert any(re.search(r"no answer \d+ cases: ValueError$", line) for line in said), said
    assert not any(note in words for words, _ in lines(judged(write(TRIPLE, rule))))


def test_a_scalar_that_was_made_for_the_operator_is_the_references_too(
    write: Callable[..., Path],
) -> None:
    inputs = "def triple_inputs(N):\n    return {'by': 7.0}\n"
    assert judged(write(TRIPLE, REFERENCE + inputs)).code == 0


KTH = """\
#include <wick/op.h>
WICK_OP(kth, "x: T[*N, S], k: int = 0 -> y: T[*N] where T: f32 f64");
WICK_IMPL wick_status kth_cpu(wick_ctx *ctx, const T *x, int64_t k, T *y, int64_t N, int64_t S)
{
    if (%s) return wick_fail(ctx, WICK_EINVAL, "k is %%lld", (long long)k);
    for (int64_t n = 0; n < N; n++) y[n] = x[n * S + k];
    return WICK_OK;
}
"""
KTH_RULE = "def kth(x, k=0):\n    return x[..., k]\n"


@pytest.mark.parametrize("refused, code", [("k < 0 || k >= S", 0), ("k < 0 || k > S", 1)])
def test_what_the_reference_refuses_does_not_crash_the_operator(
    write: Callable[..., Path], refused: str, code: int
) -> None:
    report = judged(write(KTH % refused, KTH_RULE, "kth"), depth="default")
    assert report.code == code
    if code:
        fault = report.faults[0]
        assert fault.kind == "crash" and fault.title.endswith("past the end of x")
        assert fault.details == ["the reference refuses such a call, and so should the operator"]


LERP = """\
#include <wick/op.h>
WICK_OP(lerp_, "x!: %s[*N], y: %s[*N], t: float = 0.25 -> () %s");
WICK_IMPL wick_status lerp__cpu(wick_ctx *ctx, float *x, const float *y, double t, int64_t N)
{
    (void)ctx;
    const float s = (float)t;
    for (int64_t i = 0; i < N; i++) {
        const float a = (1 - s) * x[i], b = s * y[i];
        x[i] = a + b;
    }
    return WICK_OK;
}
"""


@pytest.mark.parametrize("words", [("f32", "f32", ""), ("U", "U", "where U: f32")])
def test_what_is_written_in_place_is_computed_in_its_own_type(
    write: Callable[..., Path], words: tuple[str, str, str]
) -> None:
    """Three roundings, not one."""
    rule = "def lerp_(x, y, t=0.25):\n    x.copy_((1 - t) * x + t * y)\n"
    assert judged(write(LERP % words, rule, "lerp_")).code == 0


LONGEST = """\
#include <wick/op.h>
WICK_OP(longest, "x: T[V], at: U[R+1] -> y: T[R], most: U[] where T: f32, U: i32 i64");
WICK_IMPL wick_status longest_cpu(wick_ctx *ctx, const T *x, const U *at, T *y, U *most, int64_t V,
                                  int64_t R)
{
    if (at[0] != 0 || at[R] != V) return wick_fail(ctx, WICK_EINVAL, "at ends elsewhere than x");
    for (int64_t r = 0; r < R; r++)
        if (at[r + 1] < at[r]) return wick_fail(ctx, WICK_EINVAL, "at falls");
    *most = 0;
    for (int64_t r = 0; r < R; r++) {
        y[r] = at[r] < at[r + 1] ? x[at[r + 1] - 1] : 0;
        if (at[r + 1] - at[r] > *most) *most = at[r + 1] - at[r] - (FAULT == 1 && r > 0);
    }
    return WICK_OK;
}
"""
LONGEST_RULE = """\
import torch
def longest(x, at):
    if at[0] != 0 or at[-1] != len(x) or (at[1:] < at[:-1]).any():
        raise ValueError("at rises from 0 to V")
    n = at[1:] - at[:-1]
    y = torch.zeros(len(n), dtype=x.dtype)
    y[n > 0] = x[at[1:][n > 0] - 1]
    return y, n.max() if len(n) else torch.zeros((), dtype=at.dtype)
"""


def test_places_may_have_the_type_of_a_result(write: Callable[..., Path]) -> None:
    path = write(LONGEST, LONGEST_RULE, "longest")
    assert judged(path, ("-DFAULT=0",), only=["forward", "huge"], depth="default").code == 0
    report = judged(path, ("-DFAULT=1",))
    assert report.code == 1 and report.faults[0].title.startswith("most"), report.faults[0].title


PLANES = """\
#include <wick/op.h>
WICK_OP(planes, "x: T[N] -> y: T[N] where T: i8 scratch part: T[4, N]");
WICK_IMPL wick_status planes_cpu(wick_ctx *ctx, const T *x, T *y, T *part, int64_t N)
{
    (void)ctx;
    for (int64_t p = 0; p < 4; p++)
        for (int64_t n = N > 100 ? N - 100 : 0; n < N; n++)
            part[p * N + n] = x[n];
    for (int64_t n = N > 100 ? N - 100 : 0; n < N; n++)
        y[n] = (T)(part[n] + part[N + n] + part[2 * N + n] + part[3 * N + n]);
    return WICK_OK;
}
"""


def test_huge_scratch_in_planes_is_not_taken_for_a_fault(write: Callable[..., Path]) -> None:
    path = write(PLANES, "def planes(x):\n    return 4 * x\n", "planes")
    report = judged(path, only=["huge"], depth="default")
    assert report.code == 0
    assert any("parts of scratch" in words for words, _ in lines(report))


GROWING = """\
#include <wick/op.h>
WICK_OP(square, "h: T[H], w: T[H*4, H+1] -> y: T[H*4] where T: i16");
WICK_IMPL wick_status square_cpu(wick_ctx *ctx, const T *h, const T *w, T *y, int64_t H)
{
    (void)ctx;
    for (int64_t g = 0; g < (FAULT ? (int32_t)(4 * H * (H + 1)) / (H + 1) : 4 * H); g++) {
        int64_t s = w[g * (H + 1) + H];
        for (int64_t k = H - 1; k < H && k >= 0; k++)
            s += h[k] * w[g * (H + 1) + k];
        y[g] = (T)s;
    }
    return WICK_OK;
}
"""
GROWING_RULE = """\
def square(h, w):
    y = w[:, -1] if len(h) == 0 else w[:, -1] + h[-1] * w[:, -2]
    return (y + 32768) % 65536 - 32768
"""


def test_what_grows_as_a_square_is_huge_too(write: Callable[..., Path]) -> None:
    path = write(GROWING, GROWING_RULE, "square")
    assert judged(path, ("-DFAULT=0",), only=["huge"], depth="default").code == 0
    report = judged(path, ("-DFAULT=1",), only=["huge"], depth="default")
    assert [f.kind for f in report.faults] == ["unwritten-y"], report.faults


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_of_several_files_is_judged_as_if_alone(write: Callable[..., Path], jobs: int) -> None:
    """A fault is shown again in a process that has called nothing. It is not the next file's."""
    for name in ("first", "second", "sound"):
        text = TRIPLE.replace("triple", name)
        if name != "sound":
            text = text.replace("#define FAULT 0", "#define FAULT 1")
        path = write(text, REFERENCE.replace("triple", name), name)
    files = [Target(str(path.with_stem(n)), label=n) for n in ("first", "second", "sound")]
    options = Options(**{**QUICK, "only": ["forward", "repeat"], "jobs": jobs})
    together, alone = check(files, options), check(files[2:], options)
    assert [(f.subject, f.target.label) for f in together.faults] in (
        [("first", "first"), ("second", "second")],
        [("second", "second"), ("first", "first")],
    )
    assert not together.errors and all(NOT_AGAIN not in f.details for f in together.faults)
    assert sorted(s.name for s in together.subjects) == ["first", "second", "sound"]
    sound = next(s for s in together.subjects if s.name == "sound")
    counts = {judge: tally.cases for judge, tally in sound.tallies.items()}
    assert counts == {judge: tally.cases for judge, tally in alone.subjects[0].tallies.items()}


# ---- gradients ----

SHIFTED = """\
#include <wick/op.h>
WICK_OP(shifted, "x: T[N], by: T[] -> y: T[N] where T: f64");
WICK_OP(shifted_backward, "dy: T[N] -> dx: T[N]");
WICK_IMPL wick_status shifted_cpu(wick_ctx *ctx, const T *x, const T *by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] + *by;
    return WICK_OK;
}
WICK_IMPL wick_status shifted_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    (void)ctx;
    memcpy(dx, dy, (size_t)N * sizeof(T));
    return WICK_OK;
}
"""


def test_an_input_without_a_gradient_is_found_unless_it_is_meant(
    write: Callable[..., Path],
) -> None:
    report = judged(
        write(SHIFTED, "def shifted(x, by):\n    return x + by\n", "shifted"), only=["gradient"]
    )
    assert report.code == 1
    assert "shifted_backward has no result dby" in report.faults[0].title
    meant = "def shifted(x, by):\n    return x + by.detach()\n"
    assert judged(write(SHIFTED, meant, "shifted"), only=["gradient"]).code == 0


SQUARE = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(square, "x: T[N] -> y: T[N], kept: T[N] where T: f64");
WICK_OP(square_backward, "dy: T[N], kept: T[N] -> dx: T[N]");
WICK_IMPL wick_status square_cpu(wick_ctx *ctx, const T *x, T *y, T *kept, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] * x[i], kept[i] = 2 * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status square_backward_cpu(wick_ctx *ctx, const T *dy, const T *kept, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = dy[i] * kept[i] * (FAULT ? 2 : 1);
    return WICK_OK;
}
"""


@pytest.mark.parametrize("kept", ["(2 * x).detach()", "None"])
def test_what_is_kept_for_the_backward_needs_no_gradient(
    write: Callable[..., Path], kept: str
) -> None:
    path = write(SQUARE, f"def square(x):\n    return x * x, {kept}\n", "square")
    assert judged(path, only=["gradient"]).code == 0
    assert judged(path, ("-DFAULT=1",), only=["gradient"]).code == 1
    path = write(SQUARE, "def square(x):\n    return x * x, 2 * x\n", "square")
    report = judged(path, only=["gradient"])
    assert report.code == 1  # the reference has one
    said = [line for fault in report.faults for line in fault.details]
    assert any("square_backward does not take dkept" in line for line in said)


CUBE = """\
#include <wick/op.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(cube, "x: T[N] -> y: T[N] where T: f64 batch N");
WICK_OP(cube_backward, "dy: T[N], x: T[N] -> dx: T[N]");
WICK_OP(cube_backward_backward, "ddx: T[N], dy: T[N], x: T[N] -> ddy: T[N], dx: T[N]");
WICK_IMPL wick_status cube_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status cube_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = 3 * dy[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status cube_backward_backward_cpu(wick_ctx *ctx, const T *ddx, const T *dy, const T *x,
                                                 T *ddy, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        ddy[i] = 3 * ddx[i] * x[i] * x[i];
        dx[i] = (FAULT == 1 || (FAULT == 2 && i > 63) ? 3 : 6) * ddx[i] * dy[i] * x[i];
    }
    return WICK_OK;
}
"""


def test_the_gradient_of_a_gradient_is_judged(write: Callable[..., Path]) -> None:
    path = write(CUBE, "def cube(x):\n    return x * x * x\n", "cube")
    report = judged(path, only=["gradient"])
    note = "cube_backward_backward: judged as torch calls it, its memory is not guarded"
    assert report.code == 0 and any(note in words for words, _ in lines(report))
    report = judged(path, ("-DFAULT=1",), only=["gradient"])
    assert {f.kind for f in report.faults} == {"gradgradcheck", "second-x"}
    report = judged(path, ("-DFAULT=2",), only=["gradient"])
    assert [f.kind for f in report.faults] == ["second-x"]  # where it is longer than differences go
    assert report.faults[0].case.dims["N"] == 65


SCALED = """\
#include <wick/op.h>
WICK_OP(scaled, "x: T[N], by: float = 1.0 -> y: T[N] where T: f64");
WICK_OP(scaled_backward, "dy: T[N], by: float -> dx: T[N]");
WICK_IMPL wick_status scaled_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = by * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status scaled_backward_cpu(wick_ctx *ctx, const T *dy, double by, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = (FAULT ? 2 : 1) * by * dy[i];
    return WICK_OK;
}
"""
SCALED_RULE = """\
def scaled(x, by=1.0):
    twice = 2 * by * x  # whose gradient it has
    return by * x if %s else twice - (twice - by * x).detach()
"""


@pytest.mark.parametrize(
    "right, fault, code",
    [("by == 1", 0, 0), ("by == 1", 1, 1), ("False", 0, 1), ("True", 1, 1), ("True", 0, 0)],
)
def test_a_reference_may_be_to_blame_for_scalars_that_nobody_gives(
    write: Callable[..., Path], right: str, fault: int, code: int
) -> None:
    """And for these alone: what it says of the usual ones, it means."""
    path = write(SCALED, SCALED_RULE % right, "scaled")
    report = judged(path, (f"-DFAULT={fault}",), only=["gradient"])
    assert report.code == code, report.faults
    noted = any("the reference's gradient fails gradcheck" in words for words, _ in lines(report))
    assert noted == (right == "by == 1" and not fault)


def test_a_reference_that_refuses_what_is_a_little_different_is_no_mistake(
    write: Callable[..., Path],
) -> None:
    """Finite differences ask it for just that. What the operator has wrong is told as before."""
    rule = (
        "import torch\n"
        "def scaled(x, by=1.0):\n"
        "    if (8 * x != (8 * x).round()).any():\n"
        "        raise ValueError('eighths alone')\n"
        "    return by * x\n"
        "def scaled_inputs(N):\n"
        "    return {'x': torch.randint(-9, 9, (N,)) / 8}\n"
    )
    path = write(SCALED, rule, "scaled")
    assert judged(path, ("-DFAULT=0",), only=["gradient"]).code == 0
    report = judged(path, ("-DFAULT=1",), only=["gradient"])
    assert report.code == 1 and not report.errors, report.errors


CENTRED = """\
#include <wick/op.h>
WICK_OP(centred, "x: T[N, C] -> y: T[N, C] where T: f32 batch DIM");
WICK_IMPL wick_status centred_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++)
            sum += x[n * C + c];
        for (int64_t n = 0; n < N; n++)
            y[n * C + c] = (T)(x[n * C + c] - sum / (double)N);
    }
    return WICK_OK;
}
"""


def test_a_batch_that_does_not_hold_is_found(write: Callable[..., Path]) -> None:
    rule = "def centred(x):\n    return x - x.mean(0) if len(x) else x.clone()\n"
    about = {"only": ["opcheck"]}
    assert judged(write(CENTRED.replace("DIM", "C"), rule, "centred"), **about).code == 0
    report = judged(write(CENTRED.replace("DIM", "N"), rule, "centred"), **about)
    assert "`batch N` does not hold" in report.faults[0].title


SLEEPY = """\
#include <wick/op.h>
#include <stdlib.h>
#include <time.h>
#ifndef FAULT
#define FAULT 0
#endif
WICK_OP(sleepy, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status sleepy_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    const clock_t end = clock() + (clock_t)(N > 500 ? SECONDS * CLOCKS_PER_SEC : 0);
    (void)ctx;
    while (clock() < end) continue;
    void *volatile room = malloc(100);
    if (!FAULT) free(room);
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i];
    return WICK_OK;
}
"""


def test_slow_calls_are_made_fewer_times(write: Callable[..., Path]) -> None:
    """All of forty would be taken for a hang."""
    path = write(SLEEPY, "def sleepy(x):\n    return x.clone()\n", "sleepy")
    about = {"only": ["leak"], "case": "sleepy N=700", "depth": "default"}
    assert judged(path, ("-DSECONDS=0.5",), **about).code == 0
    report = judged(path, ("-DSECONDS=0.5", "-DFAULT=1"), **about)
    assert "a call loses" in report.faults[0].title
    said = [words for words, _ in lines(judged(path, ("-DSECONDS=1.5",), **about))]
    assert any(re.search(r"a call takes 1\.[5-9] s, and several are needed", line) for line in said)


# ---- as a test ----


def test_check_raises_what_it_found(write: Callable[..., Path]) -> None:
    path = write()
    report = wick.testing.check(path, only=["forward"], depth="quick", types=["f32"])
    assert report.code == 0
    with pytest.raises(AssertionError, match=r"FAULT forward: triple \(f32\)"):
        wick.testing.check(
            path, only=["forward"], depth="quick", types=["f32"], flags=["-DFAULT=1"]
        )
    path.with_suffix(".py").unlink()
    with pytest.raises(wick.testing.NotChecked, match="there is no reference"):
        wick.testing.check(path, only=["forward"], depth="quick", types=["f64"])


def test_an_operator_is_taken_in_any_form(write: Callable[..., Path]) -> None:
    loaded = wick.load(write())
    narrow = {"only": ["refuse"], "types": ["f32"]}
    for what in (loaded, loaded.triple, torch.ops.local.triple, torch.ops.local.triple.default):
        report = wick.testing.check(what, **narrow)
        assert [s.name for s in report.subjects] == ["triple"]
    for what in (wick.ops.relu, "relu", "wick.relu"):
        assert wick.testing.check(what, **narrow).subjects[0].name == "relu"
    report = wick.testing.check(loaded, only="refuse, leak", types="f32 f64", flags="-DFAULT=0 -O1")
    assert report.options.only == ["refuse", "leak"] and report.options.types == ["f32", "f64"]
    with pytest.raises(ValueError, match="types: 'f23' is none of f16"):
        wick.testing.check(loaded, types="f23")
    with pytest.raises(TypeError, match="neither a file nor an operator"):
        wick.testing.check(torch.relu)
    with pytest.raises(ValueError, match="only: 'forwards' is none of forward"):
        wick.testing.check(loaded, only=["forwards"])
    text = wick.load(source=TRIPLE.replace("triple", "tripled"))
    with pytest.raises(wick.testing.NotChecked, match="give the file"):
        wick.testing.check(text.tripled)


def test_sources_are_tests_to_pytest(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1", "1"))
    (path.parent / "plain.c").write_text("int x;\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "wick.testing", "-v", "-p", "no:cacheprovider"),
            *("--wick-only", "forward,memory,huge", "--wick-depth", "quick", str(path.parent)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "triple.c::forward FAILED" in done.stdout and "triple.c::memory PASSED" in done.stdout
    assert "y[12] is " in done.stdout and "wick check" in done.stdout
    assert re.search(r"^1 fault$", done.stdout, re.M)


@pytest.mark.parametrize("only", ["forward", "forward,leak"])
def test_what_crashes_fails_whatever_is_asked_of_it(write: Callable[..., Path], only: str) -> None:
    """A crash is told under `memory`, which is no test here."""
    path = write(TRIPLE.replace("(void)ctx;", "if (N > 9) __builtin_trap();\n    (void)ctx;"))
    options = ("--wick-only", only, "--wick-depth", "quick", str(path))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "wick.testing", "-p", "no:cacheprovider"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert done.returncode == 1 and "FAULT memory: triple" in done.stdout, done.stdout + done.stderr
    assert "FAILED triple.c::forward" in done.stdout


def test_control_characters_do_not_spoil_the_xml(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    junit = tmp_path / "found.xml"
    bad = "def triple(x, by=3.0):\n    raise TypeError('\\x1b[31mred\\x00')\n"
    done = run(str(write(TRIPLE, bad)), "--only=forward", "--depth=quick", f"--junit={junit}")
    assert done.returncode == 2
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert "?[31mred?" in error.attrib["message"]


def test_a_test_that_fails_shows_the_report_and_no_code_of_ours(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1", "1"))
    test = "import wick.testing\ndef test_it():\n    wick.testing.check('triple.c', depth='quick', only='forward')\n"
    (path.parent / "test_it.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert "FAULT forward: triple" in done.stdout and "1 failed" in done.stdout
    assert "raise AssertionError" not in done.stdout


# ---- what is kept from call to call ----

KEEPER = TRIPLE.replace("    (void)ctx;\n", "    (void)ctx;\n    static int64_t before = -1;\n")


def test_a_fault_that_hangs_on_the_call_before_says_so(write: Callable[..., Path]) -> None:
    """The same sizes again, and it is right."""
    source = KEEPER.replace("(FAULT == 1 && i == 12)", "(before != N && before > 0)")
    path = write(source.replace("    return", "    before = N;\n    return"))
    for first in (False, True):
        report = judged(path, types=["f32"], only=["forward"], first=first)
        details = [d for f in report.faults if f.judge == "forward" for d in f.details]
        assert NOT_AGAIN in details, [f.title for f in report.faults]


def test_a_state_is_no_memory_that_was_not_written(write: Callable[..., Path]) -> None:
    source = KEEPER.replace("(FAULT == 1 && i == 12)", "(before < 0)")
    path = write(source.replace("    return", "    before = N;\n    return"))
    found = judged(path, types=["f32"], only=["memory"]).faults
    assert "differs from one call to the next" in found[0].title


def test_numbers_are_told_apart(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("(T)(by * x[i])", "(T)(by * x[i] * (1 + 1e-11 * (FAULT == 1)))"))
    report = judged(path, types=["f64"], only=["forward"], flags=("-DFAULT=1",))
    got, expected = re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", report.faults[0].title)[:2]
    assert got != expected and abs(float(got) / float(expected) - 1) < 1e-10


LENGTH = """
#include <wick/op.h>

WICK_OP(length, "x: T[*N] -> y: float where T: f32 f64");

WICK_IMPL wick_status length_cpu(wick_ctx *ctx, const T *x, double *y, int64_t N)
{
    (void)ctx;
    *y = 0;
    for (int64_t i = 0; i < N; i++)
        if (FAULT == 0 || x[i] == x[i]) *y += (double)x[i] * (double)x[i];
    return WICK_OK;
}
"""


@pytest.mark.parametrize("fault", [0, 1])
def test_nan_that_is_swallowed_is_told_of_plain_numbers_too(
    write: Callable[..., Path], fault: int
) -> None:
    path = write(LENGTH, "def length(x):\n    return (x * x).sum().item()\n", "length")
    report = judged(path, only=["forward"], depth="quick", flags=(f"-DFAULT={fault}",))
    assert report.code == fault and not report.errors, [f.title for f in report.faults]
    assert all("but the reference is nan" in f.title for f in report.faults)


# ---- rounds ----


def test_more_time_is_used_for_more_seeds(write: Callable[..., Path]) -> None:
    path = write()
    once = judged(path, types=["f32"], only=["refuse"])
    more = judged(path, types=["f32"], only=["refuse"], seconds=once.seconds + 3)
    assert more.cases > once.cases and more.code == 0


def test_the_first_fault_is_one(write: Callable[..., Path]) -> None:
    path = write(
        TRIPLE.replace("(T)(by * x[i])", "(FAULT == 2 ? x[i < 3 ? 2 : i] : (T)(by * x[i]))")
    )
    everything = judged(path, ("-DFAULT=2",), depth="default")
    assert {f.judge for f in everything.faults} == {"forward", "memory"}
    assert len(judged(path, ("-DFAULT=2",), first=True, jobs=2).faults) == 1


def test_another_seed_draws_other_cases(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1 && i == 12", "x[0] > 0.3f && x[0] < 0.6f"))
    found = {
        judged(path, types=["f32"], only=["forward"], seed=s, first=True).faults[0].case.text()
        for s in (1, 2)
    }
    assert len(found) == 2
