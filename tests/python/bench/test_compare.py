"""Records, and what became slower between two runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from measured import a_row, run_of, times

from wick.bench import compare, records, rows, table
from wick.bench.shapes import Case


def test_records_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.json")
    row = a_row(case=Case({"N": (2, 3), "C": 4}, {"T": "f32"}, {"by": 0.5}, ("bias",)))
    about = records.machine([], ["relu"], "")
    records.write(path, about, [row])
    assert records.read(path) == (about, [row])
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert [line["record"] for line in lines] == ["machine", "row"]
    assert lines[1]["share"] == pytest.approx(1 / 1.05)


def test_who_else_used_the_machine(monkeypatch) -> None:
    now = {"theirs": 100.0, "ours": 5.0, "load": ""}
    monkeypatch.setattr(records, "_cpu_seconds", lambda: now["theirs"] + now["ours"])
    monkeypatch.setattr(records, "_own_cpu_seconds", lambda: now["ours"])
    monkeypatch.setattr(records, "busy", lambda: now["load"])
    monkeypatch.setattr(records.os, "cpu_count", lambda: 4)
    others = records.Others()
    others._began -= 10
    now["ours"] += 40
    assert others.words() == ""  # what we use ourselves does not count
    now["theirs"] += 20
    assert others.words() == "others used 2.0 of 4 CPUs meanwhile"
    now["load"] = "load 3.0 on 4 CPUs"
    assert records.Others().words() == "load 3.0 on 4 CPUs when this began"


def test_our_own_seconds_are_those_of_our_children_as_well() -> None:
    before, all_before = records._own_cpu_seconds(), records._cpu_seconds()
    code = "import time\nwhile time.process_time() < 0.4: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        while running.poll() is None and records._own_cpu_seconds() < before + 0.2:
            time.sleep(0.02)
        alive = records._own_cpu_seconds()
    assert alive >= before + 0.2 and records._own_cpu_seconds() >= before + 0.35
    assert records._cpu_seconds() >= all_before + 0.3


@pytest.mark.parametrize(
    "text", ["", "{}", "not json", '{"record": "row"}', '{"record": "machine"}']
)
def test_a_file_that_holds_no_records(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(records.RecordsError, match="not a file of wick bench --json"):
        records.read(str(tmp_path / "x.json"))
    with pytest.raises(records.RecordsError, match="No such file"):
        records.read(str(tmp_path / "gone.json"))


@pytest.mark.parametrize("broken", [0, "1 ms", None, -1.0, float("nan"), True])
def test_a_file_whose_times_are_none(tmp_path: Path, broken: object) -> None:
    path = tmp_path / "x.json"
    row = a_row()
    row.times["wick"].median_s = broken
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows.Row, "share", None)
        records.write(str(path), records.machine([], [], ""), [row])
    with pytest.raises(records.RecordsError, match="not a file of wick bench --json"):
        records.read(str(path))


def test_another_machine_is_named(capsys) -> None:
    before, after = run_of(1.0), run_of(1.0)
    for about, model in ((before[0], "An old CPU"), (after[0], "A new CPU")):
        about["devices"][0]["model"] = model
    found = compare.compare(before, after)
    assert found.elsewhere == "it was measured on another machine: An old CPU, now A new CPU"
    table.print_comparison(found, "old.json")
    assert found.elsewhere in capsys.readouterr().out
    assert compare.compare(before, before).elsewhere == ""


def test_a_comparison_of_busy_runs_says_so(capsys) -> None:
    before, after = run_of(1.0), run_of(1.0)
    before[0]["busy"] = "load 9 on 2 CPUs"
    table.print_comparison(compare.compare(before, after), "old.json")
    assert "the machine was busy then: this may be its doing" in capsys.readouterr().out
    assert compare.compare(after, after).busy == ""


@pytest.mark.parametrize(
    "before, after, slower, faster",
    [
        (run_of(1.0, 1.0, 1.0), run_of(1.0, 1.2, 0.8), [1], [2]),
        (run_of(1.0), run_of(1.04), [], []),  # within the margin
        (run_of(1.0, spread=0.3), run_of(1.2, spread=0.3), [], []),  # within the noise
        (run_of(1.0, 1.0, eager=1.0), run_of(1.3, 2.0, eager=1.3), [1], []),  # a slower machine
        (run_of(1.0, 1.0, eager=1.3), run_of(0.8, 0.5, eager=1.0), [], [1]),  # a faster one
        (run_of(1.0, eager=1.0), run_of(1.1, eager=1.3), [], []),  # measured slower: not faster
        (run_of(1.0, eager=1.3), run_of(0.9, eager=1.0), [], []),  # measured faster: not slower
    ],
)
def test_what_became_slower(before, after, slower, faster) -> None:
    found = compare.compare(before, after)
    assert [c.row.case.dims["N"] for c in found.of(compare.SLOWER)] == slower
    assert [c.row.case.dims["N"] for c in found.of(compare.FASTER)] == faster


def test_what_was_disturbed_is_not_called_the_same(capsys) -> None:
    before, after = run_of(1.0, 1.0), run_of(3.0, 1.0)
    after[1][0].verdict, after[1][0].cores = "disturbed", 0.7
    found = compare.compare(before, after)
    assert [c.row.case.dims["N"] for c in found.of(compare.DISTURBED)] == [0]
    assert [c.row.case.dims["N"] for c in found.of(compare.SAME)] == [1]
    table.print_comparison(found, "old.json")
    assert "1 the same within the noise, 1 not compared, since" in capsys.readouterr().out


WAITED = {"verdict": "disturbed", "cores": 0.6}  # of two threads: that explains 3.3
SCATTERED = {"verdict": "disturbed", "times": {"wick": times(33e-3, 0.4)}}  # that explains 2.3


@pytest.mark.parametrize(
    "then, now, slower",
    [
        ({"cores": 1.0}, {**WAITED, "times": {"wick": times(33e-3)}}, True),
        ({"cores": 1.0}, {**WAITED, "times": {"wick": times(6e-3)}}, False),
        ({"cores": 1.0}, {**WAITED, "times": {"wick": times(33e-3)}, "cores": 0.02}, False),
        ({"cores": 1.0}, {**WAITED, "times": {"wick": times(33e-3)}, "cores": 0.0}, False),
        ({"cores": 2.0}, {**WAITED, "times": {"wick": times(33e-3)}}, False),  # for each other
        ({"cores": 2.0}, {**WAITED, "times": {"wick": times(330e-3)}}, True),
        (WAITED, {**WAITED, "times": {"wick": times(33e-3)}}, False),  # of how many threads?
        ({**WAITED, "threads": 1}, {**WAITED, "threads": 1, "times": {"wick": times(33e-3)}}, True),
        (WAITED, {"times": {"wick": times(33e-3)}}, True),
        (WAITED, {"times": {"wick": times(1.5e-3)}}, False),
        ({"cores": 1.0}, {**SCATTERED, "cores": 1.0}, True),
        ({"cores": 1.0}, {**SCATTERED, "times": {"wick": times(8e-3, 0.4)}}, False),
    ],
)
def test_what_became_far_slower_than_a_disturbance_explains_is_slower(
    then: dict, now: dict, slower: bool
) -> None:
    about, _ = run_of()
    was, row = a_row(**{"times": {"wick": times(1e-3)}, **then}), a_row(**now)
    (change,) = compare.compare((about, [was]), (about, [row])).changes
    assert change.kind == (compare.SLOWER if slower else compare.DISTURBED)


def test_rows_that_are_not_compared_are_named_each_once(capsys) -> None:
    before, after = run_of(*[1e-3] * 9), run_of(*[1e-3] * 9)
    for row in before[1] + after[1]:
        row.times["out="] = times(1e-3)
        row.verdict = "disturbed"
    table.print_comparison(compare.compare(before, after), "old.json")
    said = capsys.readouterr().out
    assert said.count("not compared  local.it f32 N=") == 6 and "3 more rows" in said
    assert said.count("N=0 warm, cpu") == 1


@pytest.mark.parametrize("slower, other", [("wick", "out="), ("out=", "wick")])
def test_the_plain_call_and_out_are_compared_each(slower: str, other: str, capsys) -> None:
    before, after = run_of(1e-3), run_of(1e-3)
    before[1][0].times = {"wick": times(1e-3), "out=": times(1e-3)}
    after[1][0].times = {slower: times(2e-3), other: times(1e-3)}
    found = compare.compare(before, after)
    assert [c.name for c in found.of(compare.SLOWER)] == [slower]
    assert [c.name for c in found.of(compare.SAME)] == [other]
    table.print_comparison(found, "old.json")
    said = capsys.readouterr().out
    assert "1 slower, 0 faster, 1 the same" in said and f"cpu: {slower} 1 ms -> 2 ms" in said
    del after[1][0].times["out="]
    assert [c.name for c in compare.compare(before, after).changes] == ["wick"]


def test_only_steady_times_speak_for_the_machine() -> None:
    before, after = run_of(1.0, 1.0, 1.0, eager=1.0), run_of(4.0, 1.0, 1.0, eager=1.0)
    for row in after[1][:2]:
        row.times["eager"] = times(23.65, 0.5)
    found = compare.compare(before, after)
    assert (found.drift, found.drift_by) == (1.0, "torch's times")
    assert [c.kind for c in found.changes] == [compare.SLOWER, compare.SAME, compare.SAME]
    after[1][2].times["eager"] = times(23.65, 0.5)
    assert compare.compare(before, after).drift_by == "the copy"


def test_a_machine_that_was_slow_during_one_row() -> None:
    before, after = run_of(1.0, 1.0, 1.0, eager=1.4), run_of(1.5, 1.0, 1.5, eager=1.4)
    after[1][0].times["eager"] = times(2.1)  # torch took as much longer for this call
    found = compare.compare(before, after)
    assert found.drift == 1.0
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SAME, compare.SLOWER]
    for name, fast in (("wick", 1.0), ("eager", 1.4)):  # or was slow in two rounds of three
        samples = [fast, fast * 1.5, fast * 1.52] * 3
        after[1][0].times[name] = rows.Times.of(samples)
    found = compare.compare(before, after)
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SAME, compare.SLOWER]


def test_what_is_measured_again_stays_together() -> None:
    row = a_row(times={"wick": times(2.0), "eager": times(3.0)})
    worse = a_row(times={"wick": times(2.1), "eager": times(1.0)})
    row.take_better(worse)
    assert [t.median_s for t in row.times.values()] == [2.0, 3.0]
    row.take_better(a_row(times={"wick": times(1.0), "eager": times(4.0)}, host_s=0.25, cores=1.5))
    assert [t.median_s for t in row.times.values()] == [1.0, 4.0]
    assert (row.host_s, row.cores) == (0.25, 1.5)


def test_rows_of_a_gpu_are_the_same_whatever_torch_may_have_of_the_cpu() -> None:
    """Another process that measures them again has its own."""
    rows_of = {d: [a_row(device=d, threads=n).key() for n in (1, 2)] for d in ("cpu", "cuda:0")}
    assert rows_of["cuda:0"][0] == rows_of["cuda:0"][1]
    assert rows_of["cpu"][0] != rows_of["cpu"][1]


@pytest.mark.parametrize("eager, possible", [(23.65, False), (0.5, False), (1.3, True)])
def test_another_machine_is_not_calculated_away(eager: float, possible: bool) -> None:
    found = compare.compare(run_of(1.0, eager=1.0), run_of(1.0, eager=eager))
    assert found.is_possible is possible


def test_a_comparison_by_the_copy_and_rows_of_one_side() -> None:
    before, after = run_of(1.0, 1.0), run_of(1.0)
    before[0]["devices"][0]["copy_bytes_per_s"]["plain"] = 1.25e9
    found = compare.compare(before, after)
    assert (found.drift, found.drift_by) == (1.25, "the copy")
    assert (found.only_before, found.only_after) == (1, 0)
    assert len(found.of(compare.SAME)) == 1  # as it was measured, it is not faster


def test_without_torchs_times_a_row_is_slower_both_ways() -> None:
    before, after = run_of(1.0, 1.0, 1.0), run_of(1.0, 2.5, 0.9)
    before[0]["devices"][0]["copy_bytes_per_s"]["plain"] = 0.8e9
    found = compare.compare(before, after)
    assert found.drift == 0.8
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SLOWER, compare.SAME]
