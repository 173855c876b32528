"""How calls are timed. Never how fast anything is."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from measured import operator_in

from wick.bench import contenders, cuda, floor, rows, timing, work
from wick.bench.host import Host, Pins, cpus
from wick.bench.shapes import Case


def test_rounds_take_turns() -> None:
    order: list[str] = []

    def runner(name: str):
        return lambda n: order.append(name) or 1e-3

    samples = timing.rounds({"a": runner("a"), "b": runner("b")}, n_rounds=40, sample_s=1e-4)
    assert {name: len(s) for name, s in samples.items()} == {"a": 40, "b": 40}
    turns = [tuple(order[i : i + 2]) for i in range(4, len(order), 2)]  # after two tries each
    assert set(turns) == {("a", "b"), ("b", "a")}


def test_a_long_call_is_not_made_more_often_than_it_counts() -> None:
    made = {"long": 0, "short": 0}

    def runner(name: str, seconds: float):
        def run(n: int) -> float:
            made[name] += n
            return seconds

        return run

    runs = {"long": runner("long", 0.5), "short": runner("short", 1e-3)}
    tried = {name: run(1) for name, run in runs.items()}
    samples = timing.rounds(runs, n_rounds=3, sample_s=1e-3, tried=tried)
    assert {name: len(s) for name, s in samples.items()} == {"long": 3, "short": 3}
    assert made == {"long": 3, "short": 5}  # one more try, since the first may have been disturbed


@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("seconds, calls", [(0.21, 3), (5.0, 3)])
def test_a_quick_run_makes_three_long_calls(cache: str, seconds: float, calls: int) -> None:
    made: list[int] = []

    class Slow:
        def warm(self, stmt, names, reset):
            return lambda n: made.append(n) or seconds

        cold = warm

    field = contenders.Field([contenders.Contender("wick", "", {})], {}, None, set(), 1, [])
    found, _ = rows._sample(field, Slow(), cache, work.QUICK)
    assert made == [1] * calls and found["wick"].samples_s == [seconds] * calls


def test_garbage_is_collected_once_for_a_call(folder: Path, host: Host, monkeypatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(timing.gc, "collect", lambda: collected.append(1))
    next(folder.glob("*.shapes.txt")).unlink()  # with flops there is a matrix product as well
    operator, case = operator_in(folder), Case({"N": (2,), "C": 3}, {"T": "f32"})
    effort = rows.Effort(rounds=1, sample_s=1e-6, least=1)
    caches, roof = ("warm", "cold"), floor.Roof(host)
    found = rows.measure(operator, case, host, roof, caches, ("eager",), {}, effort, 0)
    assert [row.cache for row in found] == ["warm", "cold"] and len(collected) == 1
    assert all(row.cores is not None and not row.unlike for row in found)


def test_a_sample_is_long_enough() -> None:
    assert timing.runs_for(lambda n: 1e-6, 2e-3) == 2000
    assert timing.runs_for(lambda n: 1.0, 2e-3) == 1
    tries = iter([0.5])  # the first call compiles something
    assert timing.runs_for(lambda n: next(tries, 1e-6), 2e-3) == 2000
    assert timing.runs_for(lambda n: 1e-6, 2e-3, most=50) == 50
    assert timing.runs_for(lambda n: 1e-6, 2e-3, tried=0.1) == 2000
    for known in ({"tried": 0.5}, {"most": 1}):
        assert timing.runs_for(lambda n: pytest.fail("it is known"), 2e-3, **known) == 1


def test_a_warm_sample_begins_with_calls_that_do_not_count(host: Host) -> None:
    calls: list[int] = []
    run = host.warm("f()", {"f": lambda: calls.append(1)})
    for n, made in ((1, 1), (1, 3), (4, 6), (100, 125)):  # the very first may last for minutes
        calls.clear()
        run(n)
        assert len(calls) == made
    assert timing.uncounted(1, 0.3) == 0


def test_names_of_a_statement_may_be_anything() -> None:
    run = timing.call_seconds("f(i, t)", {"f": max, "i": 1, "t": 2})
    assert run(3) > 0


def test_quartiles() -> None:
    assert timing.quartiles([1, 2, 3, 4, 5]) == (2, 3, 4)
    assert timing.quartiles([7]) == (7, 7, 7)


def test_threads_are_held_and_let_go() -> None:
    before = os.sched_getaffinity(0)
    pins = Pins(1)
    with pins.hold():
        assert os.sched_getaffinity(0) == {cpus()[0]} == set(pins.cpus)
    assert os.sched_getaffinity(0) == before


def test_a_pool_is_spread() -> None:
    import threading

    stop = threading.Event()
    pins = Pins(len(cpus()))
    with pins.learn():
        started = [threading.Thread(target=stop.wait) for _ in range(3)]
        for thread in started:
            thread.start()
    placed = [pins.places()[thread.native_id] for thread in started]
    stop.set()
    assert placed == [pins.cpus[i % len(pins.cpus)] for i in (1, 2, 3)]


def test_the_cache_is_emptied_before_each_cold_call(host: Host, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(host, "flush", lambda: said.append("flush"))
    run = host.cold("f()", {"f": lambda: said.append("call")}, lambda: said.append("reset"))
    run(2)
    assert said == ["reset", "flush", "call"] * 2


def test_clocks_of_a_gpu_are_read(tmp_path: Path, monkeypatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "1980, 3201, [N/A], 41"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: object())
    found = cuda._ask_nvidia_smi(torch.device("cuda:0"))
    assert found == {"clocks_sm": 1980.0, "clocks_mem": 3201.0, "temperature_gpu": 41.0}
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert cuda._ask_nvidia_smi(torch.device("cuda:0")) == {}


def test_the_cpus_near_a_gpu(monkeypatch) -> None:
    place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x19, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: place)
    monkeypatch.setattr("wick.bench.host.read", lambda path: path)
    found = cuda._cpus_near(torch.device("cuda:0"))
    assert found == "/sys/bus/pci/devices/0000:19:00.0/local_cpulist"
    del place.pci_bus_id  # a torch that does not tell
    assert cuda._cpus_near(torch.device("cuda:0")) == ""


def test_a_thread_is_held_near_where_that_is_allowed() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert Pins(1, str(allowed[0])).cpus == [allowed[0]]
    assert Pins(1, "100000").cpus == Pins(1).cpus
