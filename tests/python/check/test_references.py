"""References: what they say, leave unanswered, and do wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judging import REFERENCE, TRIPLE, judged

from wick.check.report import lines


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


CENTRED = """\
#include <wick/op.h>
WICK_OP(centred, "x: T[*N, C] -> y: T[*N, C], mean: A[*N] where T: f32 f64");
WICK_OP(centred_backward, "dy: T[*N, C], mean: A[*N] -> dx: T[*N, C]");
static void centre(const T *x, T *y, A *mean, int64_t N, int64_t C)
{
    for (int64_t n = 0; n < N; n++, x += C, y += C) {
        A sum = 0;
        for (int64_t c = 0; c < C; c++) sum += x[c];
        for (int64_t c = 0; c < C; c++) y[c] = (T)(x[c] - sum / (A)C);
        if (mean) mean[n] = C ? sum / (A)C : 0;
    }
}
WICK_IMPL wick_status centred_cpu(wick_ctx *ctx, const T *x, T *y, A *mean, int64_t N, int64_t C)
{
    (void)ctx;
    centre(x, y, mean, N, C);
    return WICK_OK;
}
WICK_IMPL wick_status centred_backward_cpu(wick_ctx *ctx, const T *dy, const A *mean, T *dx, int64_t N, int64_t C)
{
    (void)ctx, (void)mean;
    centre(dy, dx, NULL, N, C);
    return WICK_OK;
}
"""


def test_what_is_kept_for_the_backward_has_no_gradient(write: Callable[..., Path]) -> None:
    """The backward is given it, and does not take one for it. What it is not given might have one."""
    reference = "def centred(x):\n    m = x.mean(-1)\n    return x - m[..., None], m.nan_to_num()\n"
    asked: dict[str, Any] = {"only": ["gradient"]}
    path = write(CENTRED, reference, name="centred")
    kept = judged(path, **asked)
    assert kept.code == 0, [f.title for f in kept.faults]
    less = CENTRED.replace(", mean: A[*N] ->", " ->").replace(" const A *mean, T", " T")
    less = less.replace(", (void)mean", "")
    not_kept = judged(write(less, reference, name="centred"), **asked)
    assert not_kept.code == 1
    told = [d for f in not_kept.faults for d in f.details]
    assert any("centred_backward does not take dmean" in d for d in told)
    detached = reference.replace("nan_to_num()", "nan_to_num().detach()")
    assert judged(write(less, detached, name="centred"), **asked).code == 0


def test_a_reference_may_leave_the_range_where_the_operator_does_not(
    write: Callable[..., Path],
) -> None:
    """Of large numbers only: an infinity that others give is one."""
    source = """\
#include <wick/op.h>
#include <math.h>
WICK_OP(bend, "x: T[*N] -> y: T[*N] where T: f32 f64");
WICK_IMPL wick_status bend_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        double v = 2 * (double)x[n];
        y[n] = (T)(v > 30 ? v : log1p(exp(v)));
        if (FAULT && isinf(v)) y[n] = 1;
    }
    return WICK_OK;
}
"""
    path = write(source, "def bend(x):\n    return ((2 * x).exp() + 1).log()\n", name="bend")
    sound = judged(path, ("-DFAULT=0",), only=["forward"], depth="default")
    assert sound.code == 0, [f.title for f in sound.faults]
    assert judged(path, ("-DFAULT=1",), only=["forward"], depth="default").code == 1


def test_only_what_the_reference_answers_is_asked_of_the_operator(
    write: Callable[..., Path],
) -> None:
    """Or it is blamed for inputs that it is not for: by any judge."""
    judges = ["memory", "repeat", "threads", "leak"]
    report = judged(write(COUNT, COUNTS, name="count"), only=judges, types=["f32"])
    assert not report.faults and report.code == 0


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


LIMITED = """\
#include <wick/op.h>
WICK_OP(add_limited, "a: T[*N], b: T[*N] -> y: T[*N] where T: i8 i16 i32");
WICK_IMPL wick_status add_limited_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    (void)ctx;
    const int64_t most = ((int64_t)1 << (8 * sizeof(T) - 1)) - 1 - FAULT;
    for (int64_t i = 0; i < N; i++) {
        const int64_t sum = (int64_t)a[i] + b[i];
        y[i] = (T)(sum > most ? most : sum < -most - 1 ? -most - 1 : sum);
    }
    return WICK_OK;
}
"""

LIMITED_RULE = """\
import torch
def add_limited(a, b, T):
    return (a + b).clamp(torch.iinfo(T).min, torch.iinfo(T).max)
"""


@pytest.mark.parametrize("fault", [0, 1])
def test_a_reference_may_ask_for_types(write: Callable[..., Path], fault: int) -> None:
    path = write(LIMITED, LIMITED_RULE, "add_limited")
    assert judged(path, (f"-DFAULT={fault}",)).code == fault


def test_what_hangs_on_the_width_of_whole_numbers_is_a_note_without_a_reference(
    write: Callable[..., Path],
) -> None:
    source = LIMITED.replace("i8 i16 i32", "i8 i64").replace(
        "(int64_t)a[i] + b[i]", "a[i] / 2 + b[i] / 2"
    )
    wide = source.replace(
        "((int64_t)1 << (8 * sizeof(T) - 1)) - 1", "sizeof(T) == 1 ? 99 : INT64_MAX"
    )
    report = judged(write(wide, None, "add_limited"), ("-DFAULT=0",), only=["forward"])
    assert report.code == 2 and not report.faults
    assert any("another number than in i64" in words for words, _ in lines(report))


def test_without_a_reference_what_the_widest_type_does_is_the_operators_fault(
    write: Callable[..., Path],
) -> None:
    source = SCALED.replace("f64", "f32 f64").replace(
        "y[i] = by * x[i];", "((T *)x)[i] = 0, y[i] = 0;"
    )
    report = judged(write(source, None, "scaled"), ("-DFAULT=0",), only=["memory"])
    assert report.code == 1 and {f.judge for f in report.faults} == {"memory"}
    assert "it wrote byte 0 of x" in report.faults[0].title


def test_without_a_reference_finite_differences_look_at_sizes_of_one(
    write: Callable[..., Path],
) -> None:
    wrong = SCALED.replace("(FAULT ? 2 : 1)", "(FAULT && N == 1 ? 2 : 1)")
    path = write(wrong, None, "scaled")
    assert judged(path, ("-DFAULT=1",), only=["gradient"]).code == 1
    assert not judged(path, ("-DFAULT=0",), only=["gradient"]).faults


def test_who_takes_leading_dims_for_a_number_is_told(write: Callable[..., Path]) -> None:
    """And nobody else whose NAME_inputs has a mistake."""
    made = f"{REFERENCE}import torch\ndef triple_inputs(N):\n    return {{'x': torch.rand(N, 3)}}\n"
    (said,) = judged(write(TRIPLE, made)).unjudged()
    assert "TypeError: rand()" in said and "N is a tuple of sizes, here (" in said
    other = made.replace("(N)", "()", 1).replace("N, 3", "'3'")
    (said,) = judged(write(TRIPLE, other)).unjudged()
    assert "TypeError: rand()" in said and "is a tuple of sizes" not in said
