"""What is judged, and how it is told; the gallery of faults is in test_gallery.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from judging import REFERENCE, TRIPLE, judged, run
from support import build_module

from wick.check import guarded
from wick.check.case import Case
from wick.check.follow import NOT_AGAIN
from wick.check.judges import threads
from wick.check.report import lines


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


def test_a_case_that_was_asked_for_is_judged_as_it_is(write: Callable[..., Path]) -> None:
    found = judged(write(), ("-DFAULT=1",), case="triple T:f32 N=500 seed=3")
    (fault,) = found.faults
    assert fault.case.dims == {"N": (500,)} and fault.count == 1 and found.cases == 1


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


def test_a_case_counts_once_whatever_is_wrong_with_it(write: Callable[..., Path]) -> None:
    report = judged(write(reference=REFERENCE.replace("3.0", "2.0")), types=["f32"])
    assert all(f.count <= report.cases for f in report.faults)


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


EDGES = """\
#include <wick/op.h>
WICK_OP(edges, "x: f32[*N], how: 'cut'|'wrap' = 'cut', twice: bool = false -> y: f32[*N]");
WICK_IMPL wick_status edges_cpu(wick_ctx *ctx, const float *x, int how, bool twice, float *y, int64_t N)
{
    if (%s) return wick_fail(ctx, WICK_EINVAL, "not so");
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * (how == WICK_how_cut ? 1 : 3) * (twice ? 2 : 1);
    return WICK_OK;
}
"""

EDGES_RULE = """\
def edges(x, how="cut", twice=False):
    return x * (1 if how == "cut" else 3) * (2 if twice else 1)
"""


@pytest.mark.parametrize(
    "refused, code",
    [("how == WICK_how_wrap", 1), ("twice", 1), ("twice && how == WICK_how_wrap", 0), ("N < 0", 0)],
)
def test_a_choice_that_the_signature_names_is_not_refused(
    write: Callable[..., Path], refused: str, code: int
) -> None:
    """Two of them together may be: the reference may be made for more than the operator is."""
    report = judged(write(EDGES % refused, EDGES_RULE, "edges"), depth="default", only=["forward"])
    assert report.code == code, [f.title for f in report.faults]
    assert {f.kind for f in report.faults} == ({"refused"} if code else set())


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


@pytest.mark.parametrize("kept", ["2 * x", "(2 * x).detach()", "None"])
def test_what_is_kept_for_the_backward_needs_no_gradient(
    write: Callable[..., Path], kept: str
) -> None:
    path = write(SQUARE, f"def square(x):\n    return x * x, {kept}\n", "square")
    assert judged(path, only=["gradient"]).code == 0
    assert judged(path, ("-DFAULT=1",), only=["gradient"]).code == 1


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


SIDES = """\
#include <wick/op.h>
WICK_OP(sides, "x: T[N] -> above: i64[N], y: T[N] where T: f16 f32");
WICK_IMPL wick_status sides_cpu(wick_ctx *ctx, const T *x, int64_t *above, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        above[i] = wick_A(x[i]) > 0, y[i] = wick_T(2 * wick_A(x[i]));
    return WICK_OK;
}
WICK_OP(sides_backward, "dy: T[N] -> dx: T[N]");
WICK_IMPL wick_status sides_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = wick_T(2 * wick_A(dy[i]));
    return WICK_OK;
}
"""


def test_whole_numbers_in_front_of_floats_are_no_fault_of_opcheck(
    write: Callable[..., Path],
) -> None:
    """torch adds results up in the type of the first."""
    path = write(SIDES, "def sides(x):\n    return (x > 0).long(), 2 * x\n", name="sides")
    report = judged(path, only=["opcheck", "gradient"])
    assert report.code == 0, [f.title for f in report.faults]
    assert report.subjects[0].tallies["opcheck"].cases == 2


def test_a_slow_call_is_not_made_longer_until_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some operators feel each doubling eightfold."""
    monkeypatch.setattr(guarded, "seconds", [0.9])
    subject = SimpleNamespace(times_for_cuts={}, prepare=None)  # never called
    case = Case("op", {}, {"N": 100_000})
    assert threads.long_enough(subject, case, (1, 1)) is None
    assert subject.times_for_cuts == {"N": 0}


def test_leaks_are_looked_for_where_nothing_has_leaked_yet(write: Callable[..., Path]) -> None:
    """Of threads, say, there is an end, and other judges' calls may have come to it."""
    text = TRIPLE.replace(
        "(void)ctx;",
        "(void)ctx;\n    static int lost;\n    if (lost < 300) lost++, *(void *volatile *)&keep = malloc(100);",
    )
    path = write(text.replace("WICK_OP", "#include <stdlib.h>\nstatic void *keep;\nWICK_OP"))
    report = judged(path, only=["forward", "leak"], types=["f32"])
    assert {f.judge for f in report.faults} == {"leak"}
