"""`wick check --device cuda` goes its way without a GPU: no mistake of its own, and no false alarm.

The workers see a torch whose GPU is the CPU (../stand_in_gpu/sitecustomize.py), with tensors that know where
they are. opcheck is left out: torch itself would go to the GPU there. What a GPU alone can show is in
tests/gpu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gallery import FAST, planted, sources

from wick.check.records import JUDGES, Options, Report, Target
from wick.check.report import lines
from wick.check.run import check

STAND_IN = Path(__file__).parents[1] / "stand_in_gpu"
ONLY = [judge for judge in JUDGES if judge != "opcheck"]
# Optional inputs and results, offsets, in place, numbers, scratch, two types.
STEMS = ["affine", "bags", "blend_", "count", "dot", "nth", "tally"]
FILES = [p for p in sources() if p.stem in STEMS]
OPTIONS = Options(device="cuda", depth="quick", only=ONLY)
# What does not need the CPU's guards, or a GPU, to be seen.
SHOWN = ("forward", "gradient", "repeat")


@pytest.fixture(scope="module", autouse=True)
def stand_in() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(STAND_IN))
        yield


def words(report: Report) -> str:
    return "\n".join(line for line, _ in lines(report))


@pytest.fixture(scope="module")
def sound() -> Report:
    shipped = Target(None, names=("scale_bias_relu", "add_out", "reduce_sum_dim"), types=("f32",))
    files = [Target(str(p), label=p.stem, flags=FAST, types=("f32", "i32")) for p in FILES]
    return check([shipped, *files], OPTIONS)


def test_sound_operators_are_sound(sound: Report) -> None:
    assert sound.code == 0, words(sound)


def test_all_that_a_gpu_is_asked_about_is_judged(sound: Report) -> None:
    asked = {judge for s in sound.subjects for judge in s.tallies}
    assert asked >= {"forward", "gradient", "memory", "repeat", "threads", "leak", "stream"}
    assert {s.target.device for s in sound.subjects} == {"cuda"}


def test_planted_faults_are_found() -> None:
    faults = [p for p in planted() if p.path in FILES and p.judge in SHOWN]
    assert len(faults) > 20
    report = check([p.target for p in faults], Options(device="cuda", first=True))
    told = {f.target.label for f in report.faults}
    assert sorted({str(p) for p in faults} - told) == [], words(report)


CUBE = """\
#include <wick/op.h>
WICK_OP(cube, "x: T[N] -> y: T[N] where T: f32 f64");
WICK_IMPL wick_status cube_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_OP(cube_backward, "dy: T[N], x: T[N] -> dx: T[N]");
WICK_IMPL wick_status cube_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) dx[i] = 3 * dy[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_OP(cube_backward_backward, "ddx: T[N], dy: T[N], x: T[N] -> ddy: T[N], dx: T[N]");
WICK_IMPL wick_status cube_backward_backward_cpu(wick_ctx *ctx, const T *ddx, const T *dy, const T *x,
                                                 T *ddy, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) ddy[i] = 3 * ddx[i] * x[i] * x[i];
    for (int64_t i = 0; i < N; i++) dx[i] = 6 * ddx[i] * dy[i] * x[i];
    return WICK_OK;
}
"""


@pytest.mark.parametrize("factor, code", [(6, 0), (5, 1)])
def test_gradients_of_gradients(write: Callable[..., Path], factor: int, code: int) -> None:
    source = CUBE.replace("6 *", f"{factor} *")
    path = write(source, "def cube(x):\n    return x * x * x\n", "cube")
    options = Options(device="cuda", depth="quick", only=["gradient"])
    report = check([Target(str(path), flags=FAST)], options)
    assert report.code == code, words(report)


FIRST = """\
#include <stdlib.h>
#include <wick/op.h>
WICK_OP(first, "x: T[N], K: int -> y: T[K] where T: f32 f64");
WICK_IMPL wick_status first_cpu(wick_ctx *ctx, const T *x, int64_t K, T *y, int64_t N)
{
    (void)ctx;
    if (K > N) abort(); /* as a kernel that reads where nothing is mapped */
    for (int64_t i = 0; i < K; i++) y[i] = x[i] * x[i];
    return WICK_OK;
}
WICK_OP(first_backward, "dy: T[K], y: T[K], x: T[N] -> dx: T[N]");
WICK_IMPL wick_status first_backward_cpu(wick_ctx *ctx, const T *dy, const T *y, const T *x, T *dx,
                                         int64_t K, int64_t N)
{
    (void)ctx, (void)y;
    for (int64_t i = 0; i < N; i++) dx[i] = i < K ? 2 * x[i] * dy[i] : 0;
    return WICK_OK;
}
"""

FIRST_RULE = """\
def first(x, K):
    if K > x.shape[0]:
        raise ValueError("there are not so many")
    return x[:K] * x[:K]
"""


def test_what_the_reference_refuses_is_not_run_to_save_what_a_backward_needs(
    write: Callable[..., Path],
) -> None:
    report = check([Target(str(write(FIRST, FIRST_RULE, "first")), flags=FAST)], OPTIONS)
    assert report.code == 0, words(report)


def test_memory_that_is_missing_from_the_beginning_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import torch\ndef full(*args, **keywords):\n    if str(keywords.get('device', ''))[:4] != 'cuda': return real(*args, **keywords)\n"
        "    raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 MiB.')\n"
        f"exec(compile(open({str(STAND_IN / 'sitecustomize.py')!r}).read(), 'stand-in', 'exec'))\n"
        "real, torch.full = torch.full, full\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{STAND_IN}")
    report = check([Target(None, names=("relu",), types=("f32",))], OPTIONS)
    assert report.code == 2
    assert ["out of memory" in why for _, why in report.errors] == [True], report.errors
