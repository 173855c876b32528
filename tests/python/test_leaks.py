"""Nothing is lost: 10^5 calls, right and wrong ones, by each door, and every tensor dies when its last name goes."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import ADD_IN_PLACE, Made

Maker = Callable[..., Made]

CALLS = 100_000
MOST_BYTES = 8 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grows(call: Callable[[], object], n: int) -> int:
    """By how many bytes n calls make the process grow, after as many as warm caches and free lists up."""
    for _ in range(n // 10):
        call()
    gc.collect()
    before = resident()
    for _ in range(n):
        call()
    gc.collect()
    return resident() - before


def failing(
    call: Callable[[], object], kinds: type[Exception] | tuple[type[Exception], ...] = RuntimeError
):
    def attempt() -> None:
        try:
            call()
        except kinds:
            return
        raise AssertionError("it did not fail")

    return attempt


EVERYTHING = """
WICK_OP(OP, "x: strided f32[N], w!: f32[N], o?: f32[N], s: shape[K], mode: 'a'|'b' = 'a', text: str = 't',"
            " k: int = 1, f: float = 0.5, b: bool = true -> y: f32[N], z?: f32[K], n: int scratch t: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const wick_view *x, float *w, const float *o, int mode, const char *text,
                             int64_t k, double f, bool b, float *y, float *z, int64_t *n, float *t, int64_t N,
                             int64_t K)
{
    (void)x, (void)o, (void)mode, (void)text, (void)f, (void)b;
    if (k < 0) return wick_fail(ctx, WICK_EINVAL, "k is %lld, expected at least 0", (long long)k);
    for (int64_t i = 0; i < N; i++)
        t[i] = 1, y[i] = t[i], w[i] = t[i];
    for (int64_t i = 0; z && i < K; i++)
        z[i] = 0;
    *n = k;
    return WICK_OK;
}
"""


@pytest.fixture(scope="module")
def everything(make: Maker) -> Made:
    return make(EVERYTHING)


def test_calls_that_work(everything: Made, either: str) -> None:
    call = everything.by(either)
    x, w, o, view = torch.ones(64), torch.ones(64), torch.ones(64), torch.ones(128)[::2]
    assert grows(lambda: call(x, w, o, (3,), "b", "text", 2), CALLS // 2) < MOST_BYTES
    assert grows(lambda: call(view, view, None, [5], want_z=False), CALLS // 2) < MOST_BYTES


def test_calls_that_fail(everything: Made, either: str) -> None:
    call = everything.by(either)
    x, w, view = torch.ones(64), torch.ones(64), torch.ones(128)[::2]
    wrong = [
        failing(lambda: call(x.int(), w, None, (3,))),
        failing(lambda: call(x, torch.ones(63), None, (3,))),
        failing(lambda: call(x, w, torch.ones(63), (3,), "b")),
        failing(lambda: call(x, w, None, (3,), "c", "text")),
        failing(lambda: call(view, view, view, (3,), k=-1)),
        failing(lambda: call(x, torch.ones(1).expand(64), None, (3,))),
        failing(lambda: call(x, w, None, (-3,))),
        failing(lambda: call(x, w, None, (3,), colour=1), (TypeError, RuntimeError)),
        failing(lambda: call(x, w, None, (3,), k="1"), (TypeError, RuntimeError)),
        failing(lambda: call(x), (TypeError, RuntimeError)),
    ]
    assert grows(lambda: [attempt() for attempt in wrong], CALLS // 20) < MOST_BYTES


def test_calls_with_out(add: Made) -> None:
    x, out, wide = torch.ones(64), torch.ones(64), torch.ones(128)
    assert grows(lambda: add.direct(x, out=out), CALLS // 2) < MOST_BYTES
    assert grows(lambda: add.direct(x, out=wide[::2]), CALLS // 4) < MOST_BYTES
    assert grows(failing(lambda: add.direct(x, out=wide)), CALLS // 4) < MOST_BYTES


def test_calls_that_need_a_gradient(add: Made, everything: Made, either: str) -> None:
    x, w = torch.ones(64, requires_grad=True), torch.ones(64)
    assert grows(lambda: add.by(either)(x), CALLS // 10) < MOST_BYTES
    assert grows(failing(lambda: add.by(either)(x).sum().backward()), CALLS // 20) < MOST_BYTES
    assert (
        grows(failing(lambda: everything.by(either)(x, w, x, (3,), "b", "text")), CALLS // 20)
        < MOST_BYTES
    )


def test_calls_through_the_dispatcher(add: Made, everything: Made, either: str) -> None:
    class Watched(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    call, x, w = everything.by(either), torch.ones(64), torch.ones(64)
    with Watched():
        assert grows(lambda: call(x, w, x, (3,), "b", "text"), CALLS // 10) < MOST_BYTES
        assert grows(failing(lambda: call(x, w, x, (3,), "c", "text")), CALLS // 20) < MOST_BYTES
    negated = torch._neg_view(x)
    assert grows(lambda: add.by(either)(negated), CALLS // 10) < MOST_BYTES
    assert (
        grows(
            failing(lambda: add.by(either)(negated, by="1"), (TypeError, RuntimeError)), CALLS // 20
        )
        < MOST_BYTES
    )


def test_tensors_die(add: Made, everything: Made, make: Maker, door: str) -> None:
    bump = make(ADD_IN_PLACE)
    x, w, o = torch.ones(8), torch.ones(8), torch.ones(8)
    tensors = [x, w, o, add.by(door)(x), *everything.by(door)(x, w, o, (3,))[:2]]
    bump.by(door)(w)
    for attempt in (
        failing(lambda: everything.by(door)(x, torch.ones(7), o, (3,))),
        failing(lambda: everything.by(door)(x, w, o, (3,), k=-1)),
        failing(lambda: everything.by(door)(x[::2], w[::2], o[::2], (3,), "c")),
    ):
        attempt()
    needing = torch.ones(8, requires_grad=True)
    tensors += [needing, add.by(door)(needing), add.by(door)(torch._neg_view(x))]
    references = [weakref.ref(t) for t in tensors]
    del tensors, x, w, o, needing, attempt
    gc.collect()
    assert [r() for r in references] == [None] * len(references)


def test_reference_counts_of_arguments(everything: Made, door: str) -> None:
    x, w, o, shape, text = (
        torch.ones(8),
        torch.ones(8),
        torch.ones(8),
        (3,),
        "a text of its own".upper(),
    )
    watched = (x, w, o, shape, text)
    before = [sys.getrefcount(v) for v in watched]
    for _ in range(100):
        everything.by(door)(x, w, o, shape, "a", text)
        failing(lambda: everything.by(door)(x, w, o, shape, "c", text))()
    assert [sys.getrefcount(v) for v in watched] == before
