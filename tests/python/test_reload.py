"""Loading a file again: it replaces what the file defined before, and what does not build is never run."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import ADD, Made, fresh, spell
from torch.overrides import TorchFunctionMode

import wick
from wick import _calls

Source = Callable[..., tuple[str, Path]]
X = torch.zeros(2)


class Watched(TorchFunctionMode):
    """A mode that changes nothing, and makes every call pass the dispatcher."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def times(text: str, factor: int) -> str:
    return text.replace("(A)by", f"(A)by * {factor}")


def test_an_edited_file_is_built_again_within_the_same_second(source: Source, door: str) -> None:
    name, path = source(ADD)
    stamp = path.stat().st_mtime_ns
    for factor in range(1, 6):
        path.write_text(spell(times(ADD, factor), name))
        os.utime(path, ns=(stamp, stamp))
        op = Made(name, path, wick.load(path))
        assert op.by(door)(X).tolist() == [float(factor)] * 2


def test_an_edited_header_is_read_again(source: Source, tmp_path: Path) -> None:
    name, path = source('#include "factor.h"\n' + times(ADD, 0).replace("* 0", "* FACTOR"))
    for factor in (2, 3):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}\n")
        assert getattr(wick.load(path), name)(X).tolist() == [float(factor)] * 2


def test_objects_from_before_run_the_new_code(source: Source, door: str) -> None:
    name, path = source(ADD)
    old = Made(name, path, wick.load(path))
    functions = [old.by(d) for d in ("direct", "wick", "torch")]
    assert [f(X)[0].item() for f in functions] == [1.0] * 3
    path.write_text(spell(times(ADD, 5), name))
    wick.load(path)
    assert [f(X)[0].item() for f in functions] == [5.0] * 3
    assert [f(X.half())[0].item() for f in functions] == [5.0] * 3, "types compiled later too"


def test_a_text_of_the_same_name_replaces() -> None:
    name = fresh()
    for factor in (1, 2):
        op = wick.load(source=spell(times(ADD, factor), name), name=f"cell {name}")
        assert getattr(op, name)(X).tolist() == [float(factor)] * 2
    with pytest.raises(wick.BuildError, match=f"already defined by cell {name}"):
        wick.load(source=spell(ADD, name), name="another cell")


def test_a_failed_build_keeps_failing_and_never_runs_what_the_file_no_longer_says(
    source: Source, door: str
) -> None:
    name, path = source(ADD)
    op = Made(name, path, wick.load(path))
    good, bad = (
        path.read_text(),
        spell(times(ADD, 7).replace("return WICK_OK;", "return WICK_OK"), name),
    )
    path.write_text(bad)
    for _ in range(3):
        with pytest.raises(wick.BuildError, match=rf"^{re.escape(str(path))}:\d+:"):
            wick.load(path)
        with pytest.raises(RuntimeError, match=rf"{re.escape(str(path))}:\d+:"):
            op.by(door)(X)
    path.write_text(bad.replace("return WICK_OK", "return WICK_OK;"))
    wick.load(path)
    assert op.by(door)(X).tolist() == [7.0, 7.0]
    path.write_text(bad)
    with pytest.raises(wick.BuildError):
        wick.load(path)
    path.write_text(good)
    wick.load(path)
    assert op.by(door)(X).tolist() == [1.0, 1.0]


def test_types_compiled_later_are_of_the_text_that_was_loaded(source: Source, door: str) -> None:
    name, path = source(ADD)
    op = Made(name, path, wick.load(path))
    path.write_text(spell(times(ADD, 9), name))  # edited, and not loaded
    assert op.by(door)(X.half()).tolist() == [1.0, 1.0]
    path.unlink()
    assert op.by(door)(X.double()).tolist() == [1.0, 1.0]


CHANGED = """
WICK_OP(OP, "x: f32[N], k: int, mode: 'a'|'b' = 'a' -> y: f32[N], n: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, int64_t k, int mode, float *y, int64_t *n, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] + (float)k;
    *n = mode == WICK_mode_b;
    return WICK_OK;
}
"""


def test_another_signature_replaces_the_schema(source: Source, door: str) -> None:
    name, path = source(ADD)
    old = Made(name, path, wick.load(path))
    for d in ("direct", "wick", "torch"):
        assert old.by(d)(X).tolist() == [1.0, 1.0]
        with Watched():  # so that every door looks torch's operator up
            assert old.by(d)(X).tolist() == [1.0, 1.0]
    for _ in range(2):
        path.write_text(spell(CHANGED, name))
        new = Made(name, path, wick.load(path))
        for op in (old, new):
            y, n = op.by(door)(X, 4, "b")
            assert y.tolist() == [4.0, 4.0] and n == 1
            with Watched():
                y, n = op.by(door)(X, 4)
            assert y.tolist() == [4.0, 4.0] and n == 0
            with pytest.raises((TypeError, RuntimeError), match=name):
                op.by(door)(X)
        path.write_text(spell(ADD, name))
        wick.load(path)
        assert old.by(door)(X, 3.0).tolist() == [3.0, 3.0]
        with Watched():
            assert old.by(door)(X, 3.0).tolist() == [3.0, 3.0]


def test_a_kept_overload_of_another_signature_is_refused_not_run(source: Source) -> None:
    name, path = source(ADD)
    wick.load(path)
    overload = getattr(torch.ops.local, name).default
    assert overload(X).tolist() == [1.0, 1.0]
    path.write_text(spell(CHANGED, name))
    wick.load(path)
    other = torch.library.Library(f"{name}_other", "DEF")  # takes what memory torch has given up
    for k in range(100):
        other.define(f"f{k}(Tensor x, int k) -> Tensor")
    with pytest.raises((RuntimeError, TypeError, NotImplementedError), match=name):
        overload(X)
    other._destroy()


def test_documentation_follows(source: Source) -> None:
    name, path = source(ADD)
    old = wick.load(path)
    path.write_text(f"/* {name} -- now with words */\n" + spell(CHANGED, name))
    new = wick.load(path)
    assert "now with words" in getattr(new, name).__doc__
    assert "now with words" in getattr(wick.ops.local, name).__doc__
    assert getattr(old, name).__self__.signature == getattr(new, name).__self__.signature


def test_an_operator_may_move_to_another_name(source: Source) -> None:
    name, path = source(ADD)
    wick.load(path)
    other = fresh()
    path.write_text(spell(ADD, other))
    op = wick.load(path)
    assert op.names == [other] and getattr(op, other)(X).tolist() == [1.0, 1.0]


def test_many_reloads(source: Source) -> None:
    name, path = source(ADD)
    for i in range(30):
        path.write_text(spell(times(ADD, i) if i % 2 else CHANGED, name))
        function = getattr(wick.load(path), name)
        if i % 2:
            assert function(X).tolist() == [float(i)] * 2
        else:
            assert function(X, 2)[0].tolist() == [2.0] * 2


def test_calls_while_the_file_is_loaded_again(source: Source, either: str) -> None:
    name, path = source(ADD)
    op = Made(name, path, wick.load(path))
    stop, wrong = threading.Event(), []
    call = op.by(either)

    def work() -> None:
        while not stop.is_set():
            try:
                value = call(X)[0].item()
            except Exception as e:
                value = e
            if value not in (1.0, 2.0):
                wrong.append(value)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for i in range(8):
        path.write_text(spell(times(ADD, 1 + i % 2), name))
        wick.load(path)
    stop.set()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.skipif(
    _calls.mode == "dispatcher",
    reason="torch itself does not stand a schema's change during a call",
)
def test_direct_calls_while_the_signature_changes(source: Source) -> None:
    name, path = source(ADD)
    function = getattr(wick.load(path), name)
    stop, wrong = threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            try:
                y = function(X)
                if y.tolist() != [1.0, 1.0]:
                    wrong.append(y)
            except (TypeError, RuntimeError) as e:
                if name not in str(e):
                    wrong.append(e)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for i in range(8):
        path.write_text(spell(ADD if i % 2 else CHANGED, name))
        wick.load(path)
    stop.set()
    for t in threads:
        t.join()
    assert wrong == []
