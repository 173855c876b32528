"""The floor: the copy's time, the products', a launch's."""

from __future__ import annotations

import itertools

import pytest
import torch

from wick import _wick
from wick.bench import cuda, floor, inputs, timing
from wick.bench.host import Host, Pins
from wick.bench.shapes import Case


def test_the_curve_between_and_outside() -> None:
    curve = floor.Curve([100, 10000], [1e-6, 1e-4])
    assert curve.at(1000) == pytest.approx(1e-5)
    assert curve.at(10) == pytest.approx(1e-7)
    assert curve.at(10**6) == pytest.approx(1e-2)
    assert curve.at(0) == 0.0 == floor.Curve().at(5)


def test_the_curve_covers_the_calls() -> None:
    sizes = floor.sizes_between(100_000, 5_000_000)
    assert sizes[0] <= 100_000 and 5_000_000 <= sizes[-1] < 5_000_000 + floor._GRAIN
    assert all(a < b <= 4 * a for a, b in itertools.pairwise(sizes))
    assert floor.sizes_between(1, 1) == [floor._SMALLEST]


class FakeDevice:
    """Copies at 1 GB/s, multiplies at 1 Tflop/s, and takes 10 us to be called."""

    name = type = "cpu"
    threads = 2
    quiet = Host.quiet
    learn = staticmethod(lambda call: call())
    _pins = Pins(1)

    def facts(self):
        return {"device": "cpu", "last_cache_bytes": 1 << 20}

    def free_bytes(self):
        return 1 << 40

    def copies(self, n):
        return {
            "plain, one": ("n", {"n": 2 * n / 1e9 + 1e-5}),
            "streaming, all": ("n", {"n": 4 * n / 1e9 + 1e-5}),
        }

    def empty_copy(self):
        return {"nothing": ("n", {"n": 1e-5})}

    arithmetic = staticmethod(lambda dtype: dtype)

    def updates(self, n):
        return {"in place": ("n", {"n": 2 * n / 4e9 + 1e-5})}

    empty_update = empty_copy

    def product(self, dtype):
        if dtype is torch.int64:
            raise RuntimeError("not implemented")
        return 10**9, "pass", {"n": 1e-3}

    def warm(self, stmt, names, reset=None):
        return lambda n: names["n"]

    cold = warm


def moving(n_bytes: int) -> inputs.Traffic:
    return inputs.Traffic(n_bytes, n_bytes, False)


class Silent:
    def step(self, *args): ...


def test_the_floor_is_the_copys_time_or_the_products() -> None:
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(4096), moving(1 << 20)], ("warm", "cold"), Silent())
    assert roof.rates["plain"] == pytest.approx(1e9) and roof.rates["streaming"] == pytest.approx(
        5e8
    )
    for cache in ("warm", "cold"):
        found = roof.floor(moving(10_000), cache, None, torch.float32)
        assert found == (pytest.approx(1e-5), "bytes")
    some = moving(10_000)
    assert roof.floor(some, "warm", 1e9, torch.float32) == (pytest.approx(1e-3), "flops")
    assert roof.floor(some, "warm", 1e9, torch.int64) == (pytest.approx(1e-5), "bytes")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_f32_on_the_cpu(host: Host, stored: torch.dtype) -> None:
    """Torch's own product of halves is many times slower there, and no limit."""
    made: list[torch.dtype] = []

    class Cpu(FakeDevice):
        arithmetic = host.arithmetic

        def product(self, dtype):
            made.append(dtype)
            return super().product(dtype)

    roof = floor.Roof(Cpu())
    assert roof.floor(moving(0), "warm", 1e9, stored) == (pytest.approx(1e-3), "flops")
    assert roof.flop_rate(torch.int32) is None
    assert made == [torch.float32] and list(roof.facts()["flops_per_s"]) == ["float32"]
    assert cuda.Cuda.arithmetic(None, stored) is stored


def test_the_copy_takes_no_more_memory_than_there_is() -> None:
    asked: list[int] = []

    class Small(FakeDevice):
        def free_bytes(self):
            return 1 << 20

        def copies(self, n):
            asked.append(2 * n)
            if 2 * n > 300_000:
                raise RuntimeError("can't allocate memory")
            return super().copies(n)

        def facts(self):
            return {"device": "cpu", "last_cache_bytes": 1 << 10}

    roof = floor.Roof(Small())
    roof.measure([moving(4096), moving(10**12)], ("warm", "cold"), Silent())
    assert max(asked) <= 1 << 19
    assert roof.curves["warm"].moved[-1] <= 300_000
    found = roof.floor(moving(10**12), "cold", None, torch.float32)
    assert found == (pytest.approx(1000.0), "bytes")  # at the rate of the largest


def test_an_empty_cache_is_never_better_than_a_full_one() -> None:
    seconds = {"warm": 2.0, "cold": 1.0}
    roof, both = floor.Roof(FakeDevice()), ["warm", "cold"]

    def ways(n: int, cache: str) -> dict[str, float]:
        return {"copy": seconds[cache]}

    assert roof._at(4096, both, ways) == {"warm": 2.0, "cold": 2.0}
    seconds["cold"] = 3.0
    assert roof._at(4096, both, ways) == {"warm": 2.0, "cold": 3.0}
    assert roof._at(1 << 30, both, ways) == {"warm": 2.0, "cold": 2.0}
    assert roof._at(4096, ["cold"], ways) == {"cold": 3.0}


def test_the_rate_is_that_of_the_memory_worked_on() -> None:
    """An operator in place moves as much as a copy, over half the memory."""
    roof = floor.Roof(FakeDevice())
    roof.curves["warm"] = floor.Curve([1000, 2000], [1e-6, 4e-6])

    def seconds(*moves) -> float:
        return roof.floor(inputs.Traffic(*moves), "warm", None, torch.float32)[0]

    assert seconds(2000, 2000, False) == pytest.approx(4e-6)
    assert seconds(2000, 1000, True) == pytest.approx(2e-6)
    assert seconds(0, 0, False) == 0.0
    roof.updates["warm"] = floor.Curve([1000, 2000], [1e-7, 5e-7])
    assert seconds(2000, 1000, True) == pytest.approx(5e-7)
    assert seconds(3000, 1000, True) == pytest.approx(7.5e-7)  # and something else is read
    assert seconds(2000, 1000, False) == pytest.approx(2e-6)  # and something new is written
    roof.updates["warm"] = floor.Curve([1000, 2000], [1e-5, 5e-5])
    assert seconds(2000, 1000, True) == pytest.approx(2e-6)  # never above the copy


def test_an_update_is_measured_where_something_is_in_place() -> None:
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(8192)], ("warm",), Silent())
    assert roof.facts()["update"] == {}
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(8192), inputs.Traffic(8192, 4096, True)], ("warm",), Silent())
    assert roof.facts()["update"]["warm"][0] == [4096, 8192]
    found = roof.floor(inputs.Traffic(8192, 4096, True), "warm", None, torch.float32)
    assert found[0] == pytest.approx(8192 / 4e9)


def test_what_is_in_place() -> None:
    parameters = _wick.parameters("wick", "add_out")
    call = inputs.make("wick", "add_out", parameters, Case({"N": (4,)}, {"T": "f32"}), "cpu", 0)
    assert call.traffic == inputs.Traffic(64, 48, True)
    assert call.traffic.declared(16) == inputs.Traffic(16, 12, True)
    assert call.traffic.declared(None) == call.traffic
    places = [((4,), "f32")] * 3
    assert not inputs.traffic_of(parameters, places, 48, 32).in_place


def test_an_update_updates(host: Host) -> None:
    ((stmt, names),) = host.updates(1 << 12).values()
    timing.timer(stmt, names).timeit(3)
    assert names["a"].sum() == -1024


def test_a_gpus_small_copies_do_not_count_as_slow() -> None:
    device = FakeDevice()
    device.type = "cuda"
    roof = floor.Roof(device)
    roof.curves["warm"] = floor.Curve([10, 100, 1000], [5.0, 5.0, 10.0])
    roof._straighten()
    assert roof.curves["warm"].seconds == [0.1, 1.0, 10.0]
    roof.rates["plain"] = 200.0  # of a copy that is larger still
    roof._straighten()
    assert roof.curves["warm"].seconds == [0.05, 0.5, 5.0]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_gpus_single_small_call_is_not_measured_by_a_launch(in_place: bool) -> None:
    device = FakeDevice()  # whose calls take 10 us: 1 KiB at 1 GB/s takes 1
    device.type = "cuda"
    device.empty_copy = device.empty_update = dict
    roof = floor.Roof(device)
    call = inputs.Traffic(1024, 1024, in_place)
    roof.measure([call], ["warm"], Silent())
    seconds, _ = roof.floor(call, "warm", None, torch.float32)
    assert seconds < 2e-6
