"""What is said of a row."""

from __future__ import annotations

import pytest
from measured import a_row, times

from wick.bench import table, verdict


@pytest.mark.parametrize(
    "changes, said",
    [
        ({}, "at the limit"),
        ({"floor_s": 1.3e-3}, "at the limit"),
        ({"floor_s": 8.6e-3}, "floor does not apply: not every byte is touched"),
        ({"floor_s": 8.6e-3, "limit": "flops"}, "floor does not apply: less is computed"),
        ({"floor_s": 8.6e-3, "call_s": 0.6e-3}, "launch-bound: 57 % is the call"),
        ({"floor_s": 0.7e-3}, "near the limit"),
        ({"call_s": 0.6e-3, "floor_s": 1e-5}, "launch-bound: 57 % is the call"),
        ({"host_s": 1e-3, "floor_s": 1e-5}, "launch-bound: 95 % is the call"),
        ({"floor_s": 1e-4, "cores": 1.0}, "poor occupancy: 1.0 of 2 threads busy"),
        ({"floor_s": 1e-4, "cores": 0.7}, "disturbed: it ran for 70 % of the time"),
        ({"floor_s": 1e-4, "cores": 0.7, "threads": 1}, "disturbed: it ran for 70 % of the time"),
        ({"cores": 0.7}, "at the limit"),
        ({"floor_s": 0.7e-3, "cores": 0.7}, "near the limit"),
        ({"floor_s": 8.6e-3, "cores": 0.7}, "disturbed: it ran for 70 % of the time"),
        ({"floor_s": 1e-4, "cores": 0.0}, "disturbed: it ran for 0 % of the time"),
        (
            {"cores": 0.7, "floor_s": 1e-4, "times": {"wick": times(9e-3), "out=": times(1e-3)}},
            "disturbed: it ran for 70 % of the time",
        ),
        (
            {"cores": 0.7, "floor_s": 1e-4, "times": {"wick": times(2e-3), "eager": times(1e-3)}},
            "disturbed: it ran for 70 % of the time",
        ),
        (
            {"times": {"wick": times(1.05e-3, 0.4)}},
            "disturbed: its times scatter by a factor of 2.33",
        ),
        (
            {"floor_s": 8.6e-3, "limit": "flops", "times": {"wick": times(1e-3, 0.4)}},
            "disturbed: its times scatter by a factor of 2.33",
        ),
        (  # judged by the faster of the two
            {"times": {"wick": times(9e-3, 0.4), "out=": times(1.05e-3), "eager": times(1e-4)}},
            "at the limit",
        ),
        (
            {"floor_s": 245e-9, "call_s": 260e-9, "times": {"wick": times(553e-9)}},
            "launch-bound: 47 % is the call, 44 % the floor",
        ),
        (
            {"floor_s": 245e-9, "call_s": 100e-9, "times": {"wick": times(553e-9)}},
            "poor access pattern: more bytes than counted, or arithmetic",
        ),
        ({"floor_s": 1e-4}, "poor access pattern: more bytes than counted, or arithmetic"),
        (  # a second thread would halve it
            {"floor_s": 1e-5, "cores": 1.0},
            "poor access pattern: more bytes than counted, or arithmetic; 1.0 of 2 threads busy",
        ),
        ({"floor_s": 1e-5, "cores": 1.0, "threads": 32}, "poor occupancy: 1.0 of 32 threads busy"),
        (
            {"floor_s": 1e-5, "cores": 1.0, "limit": "flops"},
            "poor occupancy: 1.0 of 2 threads busy",
        ),
        ({"floor_s": 1e-4, "limit": "flops"}, "poor occupancy: of the arithmetic units"),
        (
            {"times": {"wick": times(2e-3), "eager": times(1e-3), "compile": times(1.5e-3)}},
            "slower than torch: eager takes 50 %: use torch",
        ),
        ({"times": {"wick": times(1.05e-3), "eager": times(1.02e-3)}}, "at the limit"),
        (  # so far apart that they are slower, but whose doing is it?
            {"times": {"wick": times(50e-3, 0.6), "eager": times(1e-3)}},
            "disturbed: its times scatter by a factor of 4",
        ),
        (  # what scatters is torch's, so it says nothing of ours
            {"times": {"wick": times(1.05e-3), "eager": times(1e-4, 0.45)}},
            "at the limit",
        ),
        (
            {
                "times": {
                    "wick": times(1.05e-3),
                    "eager": times(1e-4, 0.45),
                    "compile": times(0.5e-3),
                }
            },
            "slower than torch: compile takes 48 %: use torch",
        ),
        (  # faster at something else
            {
                "times": {"wick": times(1.05e-3), "eager": times(1e-4)},
                "unlike": {"eager": "the result is None, the operator's [2]"},
            },
            "at the limit: differs from the reference: see wick check",
        ),
        (
            {"times": {"wick": times(1.6e-3, 0.3), "eager": times(1.4e-3, 0.3)}},
            "near the limit",
        ),
        (
            {"times": {"wick": times(9e-3), "out=": times(1e-3)}},
            "at the limit: pass out=: new memory costs 89 %",
        ),
        (
            {"unlike": {"eager": "the result differs by 50 %"}},
            "at the limit: differs from the reference: see wick check",
        ),
        ({"unlike": {"apex": "the result is None, the operator's [2]"}}, "at the limit"),
        ({"floor_s": 0.0, "call_s": 0.0}, "nothing to move"),
        ({"floor_s": 0.0, "call_s": 1e-3}, "launch-bound: 95 % is the call"),
    ],
)
def test_verdicts(changes: dict[str, object], said: str) -> None:
    row = a_row(**changes)
    verdict.judge([row])
    assert table.said(row) == said
    assert row.verdict in verdict.MEANINGS and row.verdict in table.COLOURS


def test_a_gpu_that_has_too_little_to_do() -> None:
    small = a_row(device="cuda:0", cores=None, floor_s=1e-4)
    large = a_row(device="cuda:0", cores=None, read_bytes=10**6, floor_s=0.9e-3)
    verdict.judge([small, large])
    assert table.said(small) == "poor occupancy: too little work at this size"
    assert large.verdict == "at the limit"


def test_a_floor_that_does_not_apply_says_nothing_of_other_sizes() -> None:
    small = a_row(device="cuda:0", cores=None, floor_s=0.5e-3)
    large = a_row(device="cuda:0", cores=None, read_bytes=10**6, floor_s=9e-3)
    verdict.judge([small, large])
    assert [row.verdict for row in (small, large)] == [
        "poor access pattern",
        "floor does not apply",
    ]
