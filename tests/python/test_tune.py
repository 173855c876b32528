"""wick tune: what it measures, what it keeps and what it says. The timer is the test's own; no GPU, no clock."""

from __future__ import annotations

import collections
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import fresh, spell

import wick
from wick import _wick, cli_tune, tune
from wick.bench import target

SOURCE = """\
WICK_OP(OP, "x: T[*N, C] -> y: T[*N, C] where T: f32 f64");
WICK_TUNE(OP, "threads: 128 256, rows: 1 2 4");
WICK_OP(OP_other, "x!: T[*N] -> ()");
WICK_TUNE(OP_other, "width: 1 2");
WICK_OP(OP_plain, "x: T[*N] -> y: T[*N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N, int64_t C)
{ (void)ctx; for (int64_t i = 0; i < N * C; i++) y[i] = x[i]; return WICK_OK; }
WICK_IMPL wick_status OP_other_cpu(wick_ctx *ctx, T *x, int64_t N)
{ (void)ctx; for (int64_t i = 0; i < N; i++) x[i] += 1; return WICK_OK; }
WICK_IMPL wick_status OP_plain_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{ (void)ctx; for (int64_t i = 0; i < N; i++) y[i] = x[i]; return WICK_OK; }
static __global__ void OP_kernel(const T *x, T *y) { y[0] = x[0]; }
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N, int64_t C)
{
    int64_t rows = wick_tuned(ctx, rows, 1);
    return WICK_LAUNCH(ctx, OP_kernel, wick_1d(N * C / rows), wick_1d(wick_tuned(ctx, threads, 256)), 0, x, y);
}
WICK_IMPL wick_status OP_other_cuda(wick_ctx *ctx, T *x, int64_t N)
{ return WICK_LAUNCH(ctx, OP_kernel, wick_1d(N), wick_1d(wick_tuned(ctx, width, 1)), 0, x, x); }
"""
TEXT = "threads: 128 256, rows: 1 2 4, width:"
SIZES = "N=1024 C=32\nN=8x128 C=33\nN=4096 C=32\n"
GPU = "Some GPU (1 GB)"

Values = tuple[int, ...]


class Timer:
    """A device that takes as long as it is told; what is forced at the moment decides."""

    name = "cpu"  # where the inputs are

    def __init__(self, seconds: Callable[[Values | None], float]) -> None:
        self.seconds = seconds
        self.forced: Values | None = None
        self.asked: list[str] = []  # warm, cold
        self.runs: list[Values | None] = []
        self.jitter = itertools.cycle([1.0, 1.001, 0.999])

    def learn(self, call: Callable[[], Any]) -> None:
        call()

    def _timer(self, state: str) -> Callable[[int], float]:
        self.asked.append(state)

        def run(n: int) -> float:
            self.runs.append(self.forced)
            return self.seconds(self.forced) * next(self.jitter)

        return run

    def warm(self, stmt: str, names: Any, reset: Any = None) -> Callable[[int], float]:
        return self._timer("warm")

    def cold(self, stmt: str, names: Any, reset: Any = None) -> Callable[[int], float]:
        return self._timer("cold")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operators, with sizes beside them, and a cache of the test's own."""
    monkeypatch.setenv("WICK_CACHE_DIR", str(tmp_path / "cache"))
    name = fresh("tuned")
    path = tmp_path / f"{name}.cu"
    path.write_text(spell(SOURCE, name))
    path.with_suffix(".shapes.txt").write_text(SIZES)
    return path


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Timer]]:
    """device(seconds): a timer that is told what is forced."""
    force = tune.Choices.force
    made: list[Timer] = []

    def watched(self: tune.Choices, values: Values | None) -> None:
        force(self, values)
        for timer in made:
            timer.forced = values

    def make(seconds: Callable[[Values | None], float]) -> Timer:
        made.append(Timer(seconds))
        return made[-1]

    monkeypatch.setattr(tune.Choices, "force", watched)
    yield make


def options(file: Path | str, *more: str) -> Any:
    return cli_tune.parser().parse_args([str(file), *more])


def choices(file: Path) -> tune.Choices:
    found = tune.choices_of(target.find([str(file)], None, None)[0])
    assert found is not None
    return found


def kept(file: Path, name: str | None = None, gpu: str = GPU) -> list[str]:
    path = _wick.tune_path("local", name or file.stem, gpu)
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


# ---- choices ----


def test_what_there_is_to_choose(file: Path) -> None:
    loaded = wick.load(file)
    own, other, plain = (_wick.tune_choices("local", name) for name in loaded.names)
    assert own == (TEXT, [("threads", [128, 256]), ("rows", [1, 2, 4]), ("width", [])])
    assert other[0] == "threads:, rows:, width: 1 2" and plain is None
    found = choices(file)
    assert found.combinations() == [(t, r, 0) for t in (128, 256) for r in (1, 2, 4)]
    assert found.words((128, 4, 0)) == "threads=128 rows=4"


def test_keys_are_of_the_class_of_the_sizes(file: Path) -> None:
    found = choices(file)
    cases = found.operator.cases(["f64"])
    assert [found.key(case) for case in cases] == ["f64 10,5", "f64 10,5", "f64 12,5"]


def test_what_is_forced_is_one_of_the_choices(file: Path) -> None:
    name = choices(file).operator.name
    with pytest.raises(RuntimeError, match="not choices of the operator"):
        _wick.tune_force("local", name, (64, 1, 0))
    with pytest.raises(ValueError, match="2 values, expected 3"):
        _wick.tune_force("local", name, (128, 1))
    with pytest.raises(LookupError, match="no operator nothing"):
        _wick.tune_force("local", "nothing", None)
    with pytest.raises(ValueError, match="1 dims, expected 2"):
        _wick.tune_key("local", name, ["f32"], [3])
    with pytest.raises(ValueError, match="complex is not an element type"):
        _wick.tune_key("local", name, ["complex"], [3, 3])


# ---- measuring ----


def only(file: Path, timer: Timer, **effort: Any) -> tune.Outcome:
    found = choices(file)
    return tune.measure(found, found.operator.cases(())[0], timer, tune.Effort(**effort))


def test_the_best_choice_is_found(file: Path, device: Callable[..., Timer]) -> None:
    timer = device(
        lambda v: 1e-3 if v is None else 1e-3 * (1 + abs(v[0] - 128) + abs(v[1] - 4)) / 2
    )
    outcome = only(file, timer)
    assert outcome.best == (128, 4, 0) and outcome.kept
    assert outcome.gain == pytest.approx(0.5, abs=0.01)
    assert timer.forced is None, "nothing stays forced"
    assert set(timer.asked) == {"cold"}
    assert {None, (128, 1, 0), (256, 4, 0)} <= set(timer.runs)


def test_a_choice_that_is_a_little_better_is_not_kept(
    file: Path, device: Callable[..., Timer]
) -> None:
    outcome = only(file, device(lambda v: 1e-3 if v is None else 0.985e-3))
    assert outcome.best is not None and not outcome.kept


def test_noise_decides_nothing(file: Path, device: Callable[..., Timer]) -> None:
    """Medians apart, but the samples overlap: of each choice, whatever the order they are run in."""
    noise = collections.defaultdict(lambda: itertools.cycle([0.7, 1.0, 1.3, 0.8, 1.2]))
    outcome = only(file, device(lambda v: (1e-3 if v is None else 0.9e-3) * next(noise[v])))
    assert outcome.gain > tune.GAIN and not outcome.kept


def test_the_fastest_of_the_first_round_is_measured_anew(
    file: Path, device: Callable[..., Timer]
) -> None:
    """One choice is fast by chance as long as all take part; alone with the rule it is not."""
    timer = device(lambda v: 1e-3)
    timer.seconds = lambda v: 0.5e-3 if v == (256, 2, 0) and len(timer.runs) < 60 else 1e-3
    outcome = only(file, timer, rounds=40)
    assert not outcome.kept


def test_a_choice_that_does_not_run_is_none(
    file: Path, device: Callable[..., Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = device(lambda v: 1e-3 if v is None else v[1] * 1e-4)

    def learn(call: Callable[[], Any]) -> None:
        if timer.forced and timer.forced[1] == 1:
            raise RuntimeError("op: kernel k: block is 2048\nmore")
        call()

    monkeypatch.setattr(timer, "learn", learn)
    outcome = only(file, timer)
    assert outcome.best is not None and outcome.best[1] == 2 and outcome.kept
    assert outcome.refused == {
        "threads=128 rows=1": "op: kernel k: block is 2048",
        "threads=256 rows=1": "op: kernel k: block is 2048",
    }


def test_a_choice_that_gives_another_result_is_none(
    file: Path, device: Callable[..., Timer]
) -> None:
    timer = device(lambda v: 1e-3 if v is None else 1e-4)
    found = choices(file)
    real = found.operator.function

    class Wrong:
        __self__ = real.__self__

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return real(x) + (1 if timer.forced and timer.forced[0] == 128 else 0)

    found.operator.function = Wrong()
    outcome = tune.measure(found, found.operator.cases(())[0], timer, tune.Effort())
    assert outcome.best is not None and outcome.best[0] == 256
    assert set(outcome.refused.values()) == {"gives another result than the rule"}


def test_a_failure_of_the_rule_is_told(file: Path, device: Callable[..., Timer]) -> None:
    timer = device(lambda v: 1e-3)
    timer.learn = lambda call: (_ for _ in ()).throw(RuntimeError("no"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no"):
        only(file, timer)
    assert timer.forced is None


# ---- the command ----


def seconds(values: Values | None) -> float:
    """Better by threads=128 rows=2; width makes no difference."""
    if values is None or values[2]:
        return 1e-3
    return 0.5e-3 if values[:2] == (128, 2) else 2e-3


def test_what_is_better_is_written_down(
    file: Path, device: Callable[..., Timer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.tune(options(file, "--types", "all"), device(seconds), GPU) == 0
    assert kept(file) == [TEXT, "f32 10,5 128,2,0", "f32 12,5 128,2,0", "f64 10,5 128,2,0", "f64 12,5 128,2,0"]  # fmt: skip
    assert kept(file, f"{file.stem}_other") == [], "its rule is as good"
    said = capsys.readouterr().out
    assert said.startswith(f"{GPU}, cold caches\nlocal.{file.stem}: {TEXT}\n")
    assert "threads=128 rows=2" in said and "+50.0 %" in said
    assert said.count("kept\n") == 4 and "the rule stays" in said
    assert said.count("N=8x128") == 0, "of one class as N=1024: measured once"


def test_a_dry_run_writes_nothing(file: Path, device: Callable[..., Timer]) -> None:
    assert tune.tune(options(file, "--dry-run"), device(seconds), GPU) == 0
    assert kept(file) == []


def test_lines_of_other_sizes_stay_and_what_is_no_longer_better_goes(
    file: Path, device: Callable[..., Timer]
) -> None:
    path = Path(_wick.tune_path("local", choices(file).operator.name, GPU))
    path.parent.mkdir(parents=True)
    path.write_text(f"{TEXT}\nf32 10,5 256,4,0\nf32 3,3 256,1,0\n")
    worse = lambda v: 1e-3 if v is None else 2e-3  # noqa: E731
    assert tune.tune(options(file, "--size", "N=1024 C=32"), device(worse), GPU) == 0
    assert kept(file) == [TEXT, "f32 3,3 256,1,0"]
    path.write_text("threads: 1 2\nf32 10,5 1\n")
    assert tune.tune(options(file, "--size", "N=1024 C=32"), device(seconds), GPU) == 0
    assert kept(file) == [TEXT, "f32 10,5 128,2,0"], "those of other choices are gone"


def test_devices_of_another_name_have_files_of_their_own(
    file: Path, device: Callable[..., Timer]
) -> None:
    timer = device(seconds)
    tune.tune(options(file), timer, GPU)
    tune.tune(options(file, "--dry-run"), timer, "Another")
    assert kept(file) and not kept(file, gpu="Another")


def test_it_may_be_stopped(file: Path, device: Callable[..., Timer]) -> None:
    """What was measured by then is kept."""
    timer = device(seconds)
    done = 0

    def learn(call: Callable[[], Any]) -> None:
        nonlocal done
        done += 1
        if done > 8:
            raise KeyboardInterrupt
        call()

    timer.learn = learn  # type: ignore[method-assign]
    assert tune.tune(options(file), timer, GPU) == 130
    assert kept(file) == [TEXT, "f32 10,5 128,2,0"]


def test_what_was_measured_may_be_forgotten(
    file: Path, device: Callable[..., Timer], capsys: pytest.CaptureFixture[str]
) -> None:
    timer = device(seconds)
    tune.tune(options(file), timer, GPU)
    tune.tune(options(file), timer, "Another")
    capsys.readouterr()
    assert tune.main(options(file, "--clear")) == 0
    assert capsys.readouterr().out == "wick tune: 2 files removed\n"
    assert kept(file) == [] and kept(file, gpu="Another") == []


def test_warm_caches_and_fewer_rounds(file: Path, device: Callable[..., Timer]) -> None:
    timer = device(seconds)
    tune.tune(options(file, "--cache", "warm", "--rounds", "2", "--dry-run"), timer, GPU)
    assert set(timer.asked) == {"warm"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune.main(options(file)) == 1
    assert capsys.readouterr().err == (
        "wick tune: launches are tuned on the GPU that they are for, and torch sees none here\n"
    )


def test_operators_without_choices(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune.main(options("relu", "--clear")) == 1
    assert "relu: no operator in it has choices to measure (WICK_TUNE)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, code, said",
    [
        ([], 2, "OPERATOR"),
        (["x.cu", "--rounds", "0"], 2, "--rounds is 0"),
        (["x.cu", "--device", "cpu"], 2, "expected cuda or cuda:N"),
        (["nowhere.cu", "--clear"], 1, "nowhere.cu: there is no such file"),
    ],
)
def test_wrong_words(words: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, cli_tune.__file__, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code and said in done.stderr


def test_sizes_that_do_not_fit(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timer_never_asked = object()
    with pytest.raises(tune.AskedWronglyError, match="--types i8: tuned_.*'s T is f32 f64"):
        tune.tune(options(file, "--types", "i8"), timer_never_asked, GPU)
