"""The command, from its words to its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from measured import a_row, operator_in, run_of, source_in
from support import fresh

import wick
from wick import cli_bench
from wick.bench import again, asked, contenders, floor, inputs, plots, records, rows, target, work
from wick.bench.host import Host
from wick.bench.shapes import Case


def bench(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = Path(wick.__file__).parent / "cli_bench.py"
    return subprocess.run(
        [sys.executable, str(script), *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


QUICK = ("--quick", "--rounds", "3", "--threads", "1", "--cache", "warm")


def test_the_command_measures_a_file(folder: Path) -> None:
    name = source_in(folder).stem
    done = bench(f"{name}.c", *QUICK, "--against", "eager,twice", "--json", "rows.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"local.{name}, f32, cpu, 1 thread" in done.stdout
    about, found = records.read(str(folder / "rows.json"))
    assert about["command"].startswith("wick bench slope_")
    assert [row.case.words() for row in found][:2] == ["N=2x3 C=4", "N=5 C=7 by=0.5 bias=none"]
    assert all(set(row.times) >= {"wick", "out=", "eager"} and row.verdict for row in found)
    assert "twice" in found[0].times and "twice" in found[1].missing  # it wants a bias
    for row in found:
        assert all(len(t.samples_s) == 3 and t.median_s > 0 for t in row.times.values())


@pytest.mark.parametrize(
    "ours, eager, code, said",
    [
        (1.0, 1.0, 0, "Against old.json: 0 slower, 0 faster, 1 the same within the noise"),
        (4.0, 1.0, 1, "Against old.json: 1 slower"),
        (92.0, 23.65, 1, "slower"),  # by more than the machine
        (4.0, 23.65, 2, "cannot compare: the machine takes 23.65 x as long as then, by torch's"),
        (1.0, 0.5, 2, "cannot compare: the machine takes 0.50 x as long as then, by torch's times"),
    ],
)
def test_the_command_compares(
    tmp_path: Path, monkeypatch, capsys, ours: float, eager: float, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "facts", lambda: {"torch": "2", "date": "today"})
    records.write("old.json", records.machine([], [], ""), run_of(1.0, eager=1.0)[1])
    monkeypatch.setattr(rows, "measure", lambda *rest: run_of(ours, eager=eager)[1])
    monkeypatch.setattr(again, "measure", lambda *rest: [])  # it did not come to its end
    monkeypatch.setattr(rows, "smallest_call", lambda *rest: {})
    arguments = ["relu", "--size", "N=8", *QUICK, "--compare", "old.json"]
    assert cli_bench.main(arguments) == code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert code < 2 or "faster" not in shown.out


@pytest.mark.parametrize(
    "each, code, asked",
    [
        ([1.0, 9.0], 0, 1),
        ([2.0, 1.0, 9.0], 0, 2),  # it was disturbed
        ([2.0, 2.1, 1.0, 9.0], 0, 3),
        ([2.0, 2.1, 2.2, 9.0], 1, 3),
        ([1.2, 1.5, 9.0], 0, 2),  # processes are further apart than it is from then
    ],
)
def test_what_seems_slower_is_measured_again(
    tmp_path: Path, monkeypatch, each: list[float], code: int, asked: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "facts", lambda: {"torch": "2", "date": "today"})
    records.write("old.json", records.machine([], [], ""), run_of(1.0, eager=1.0)[1])
    left = list(each)

    def measure(*rest: object) -> list[rows.Row]:
        return run_of(left.pop(0), eager=1.0)[1]

    monkeypatch.setattr(rows, "measure", measure)
    monkeypatch.setattr(again, "measure", measure)
    monkeypatch.setattr(rows, "smallest_call", lambda *rest: {})
    files = ("--compare", "old.json", "--json", "new.json")
    assert cli_bench.main(["relu", "--size", "N=8", *QUICK, *files]) == code
    assert len(each) - len(left) == asked
    (row,) = records.read("new.json")[1]
    assert row.times["wick"].median_s == min(each[:asked])


def test_another_process_measures_the_same_call(folder: Path) -> None:
    name = source_in(folder).stem
    words_ = [str(folder / f"{name}.c"), *QUICK, "--size", "N=2x3 C=4", "--size", "N=8 C=64"]
    found = again.measure([*words_, "--types", "f32"], [f"{name} N=8 C=64 f32"], "cpu")
    assert [(row.operator, row.cache) for row in found] == [(f"local.{name}", "warm")]
    assert all(row.case.dims == {"N": (8,), "C": 64} for row in found)
    assert again.measure(["gone.c"], ["gone"], "cpu") == []


def test_the_command_compiles_draws_and_traces(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    name = source_in(folder).stem
    size = ("--size", "N=2x3 C=4", "--size", "N=8 C=64")
    files = ("--html", "r.html", "--plots", "drawn", "--profile", "trace.json", "--json", "-")
    done = bench(f"{name}.c", *QUICK, *size, "--against", "eager compile", *files, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    compiled = [r for r in found if r["record"] == "row" and "compile" in r["times"]]
    reasons = [r["missing"] for r in found if r["record"] == "row"]
    assert len(compiled) == 4, reasons  # both operators at both sizes
    assert len(list((folder / "drawn").iterdir())) == 6
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    assert "profiler_st" not in done.stderr  # its log
    trace = json.loads((folder / "trace.json").read_text())
    labels = {event.get("name") for event in trace["traceEvents"]}
    assert (
        f"wick: {name} N=8 C=64 f32 cpu" in labels and f"eager: {name} N=8 C=64 f32 cpu" in labels
    )


def test_a_trace_has_the_calls_that_were_measured(folder: Path, host: Host, tmp_path: Path) -> None:
    from wick.bench import profiling

    operator = operator_in(folder)
    compiled: list[str] = []

    def backend(module, example):
        compiled.append("once")
        return module.forward

    calls = [(operator, Case({"N": (n,), "C": 3}, {"T": "f32"}), host) for n in range(2, 12)]
    with pytest.MonkeyPatch.context() as patch:
        made = torch.compile
        patch.setattr(torch, "compile", lambda f, **rest: made(f, backend=backend, **rest))
        before: list[int] = []

        class Watched(profiling.profile):
            def __enter__(self):
                before.append(len(compiled))
                return super().__enter__()

        patch.setattr(profiling, "profile", Watched)
        profiling.trace(str(tmp_path / "trace.json"), calls, ("eager", "compile"), 0)
    assert before == [len(compiled)] == [2 * len(calls) - 1]  # the last was still there
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X"]
    given = [e for e in spans if e["name"].startswith("out=: ")]
    assert len(given) == len(calls)
    for span in given:
        begin, end = span["ts"], span["ts"] + span["dur"]
        assert not [e["name"] for e in spans if begin < e["ts"] < end]


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["nothing"], 2, "no operator nothing in namespace wick"),
        (["gone.c"], 2, "gone.c: there is no such file"),
        (["relu", "--shapes", "gone.txt"], 2, "gone.txt: there is no such file"),
        (["relu", "--seed", "9" * 23], 2, "expected a number of 64 bits"),
        (["relu", "--json", ""], 2, "--json: expected a name"),
        (["relu", "--html", ""], 2, "--html: expected a name"),
        (["relu", "--html", "-"], 2, "--html -: expected the name of a file"),
        (["relu", "--json", "r", "--html", "./r"], 2, "--html ./r: --json is written there"),
        (["muladd_backward", "--size", "N=2 da=0"], 2, "da=0: only an optional can be =none"),
        (["relu", "--size", "N=2 y=none"], 2, "y is no name of a signature: N, T, x"),
        (["relu", "--reference", "gone.py"], 2, "gone.py: there is no such file"),
        (["relu", "--reference", ".."], 2, "..: it is a folder"),
        (["relu", "--reference", "/dev/null"], 2, "/dev/null is no Python file (its name has to"),
        (["relu", "--device", "tpu"], 2, "expected cpu, cuda or cuda:N"),
        (["relu", "--types", "i8"], 2, "--types i8: relu's T is f16 bf16 f32 f64"),
        (["relu", "--size", "M=3"], 2, "M is no name of a signature: N, T, x"),
        (["relu", "--size", "T=f32"], 2, "--size: relu needs N"),
        (["relu", "--compare", "gone.json"], 2, "gone.json: No such file"),
        (["relu", "--json", "no/where.json"], 2, "cannot be written: No such file or directory"),
        (["relu", "--json", "."], 2, ".: cannot be written: Is a directory"),
        (["relu", "--profile", "."], 2, "--profile .: torch writes a trace to plain files alone"),
        (["relu", "--json", "/proc/x.json"], 2, "/proc/x.json: cannot be written: "),
        (["relu", "--shapes", "."], 2, ".: Is a directory"),
        (["relu", "--size", "N=8", "--size", "flops: 3*Q"], 2, "--size:2: Q is no dim"),
        (["relu", "--threads", "0"], 2, "--threads is 0, expected 1 or more"),
        (["relu", "--cache", "hot"], 2, "invalid choice: 'hot'"),
        (["relu", "--nonsense"], 2, "unrecognized arguments: --nonsense"),
    ],
)
def test_the_command_refuses(
    tmp_path: Path, monkeypatch, capsys, args: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        returned = cli_bench.main(args)
    except SystemExit as end:  # argparse's own
        returned = end.code
    said = capsys.readouterr()
    assert (returned, said.out) == (code, "")
    assert "wick bench: " in said.err and message in said.err


@pytest.mark.parametrize(
    "body, message",
    [
        ("return 3", " returned 3, expected a dict"),
        ("raise KeyError('k')", ": KeyError: 'k'"),
        ("import sys; sys.exit(3)", ": SystemExit: 3"),
    ],
)
def test_inputs_that_are_none_are_told_before_anything_runs(
    folder: Path, monkeypatch, capsys, body: str, message: str
) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text(f"def {source.stem}_inputs(N): {body}\n")
    monkeypatch.setattr(floor.Roof, "measure", lambda *rest: pytest.fail("it measures"))
    assert cli_bench.main([str(source), *QUICK]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"{source.stem}.py: {source.stem}_inputs{message}" in said


def test_a_reference_that_exits(folder: Path, host: Host) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text(f"def {source.stem}(x): raise SystemExit(3)\n")
    operator, case = operator_in(folder), Case({"N": (2,), "C": 3}, {"T": "f32"})
    call = inputs.make(operator.namespace, operator.name, operator.parameters, case, "cpu", 0)
    field = contenders.field(operator, case, call, host, ("eager",), 0)
    assert field.missing == {"eager": "SystemExit: 3"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_names_the_file(monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda *rest: [a_row()])
    assert cli_bench.main(["relu", *QUICK, "--size", "N=8", "--json", "/dev/full"]) == 2
    assert "wick bench: /dev/full: No space left" in capsys.readouterr().err


def test_output_is_tried_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    for name in ("new.json", "old.json", "pipe"):
        asked.try_to_write(str(tmp_path / name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old.json", "pipe"]
    assert (tmp_path / "old.json").read_text() == "kept"


def test_sizes_that_are_no_text(folder: Path, capsys) -> None:
    source = source_in(folder)
    source.with_name(f"{source.stem}.shapes.txt").write_bytes(b"N=2 C=3\n# \xff\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.shapes.txt: not UTF-8: byte 10 is 0xff" in capsys.readouterr().err


def test_plots_without_matplotlib_are_refused_at_once(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli_bench.main(["relu", "--html", "r.html"]) == 2
    assert "pip install 'torch-wick[bench]'" in capsys.readouterr().err


def test_an_operator_that_refuses_is_skipped_with_its_words(tmp_path: Path) -> None:
    name = f"picky_{fresh()}"
    (tmp_path / f"{name}.c").write_text(
        f"""#include <wick/op.h>
WICK_OP({name}, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status {name}_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{{
    if (N % 2) return wick_fail(ctx, WICK_EINVAL, "N is %lld, expected an even number", (long long)N);
    for (int64_t i = 0; i < N; i++) y[i] = x[i];
    return WICK_OK;
}}
"""
    )
    sizes = ("--size", "N=7", "--size", "N=8")
    done = bench(f"{name}.c", *QUICK, *sizes, cwd=tmp_path)
    assert done.returncode == 0
    assert f"skipped {name} N=7 on cpu: {name}: N is 7, expected an even number" in done.stderr
    assert "N=8" in done.stdout and "N=7" not in done.stdout
    done = bench(f"{name}.c", *QUICK, "--size", "N=7", "--size", "N=9", cwd=tmp_path)
    assert done.returncode == 2 and "nothing was measured" in done.stderr


@pytest.mark.parametrize(
    "size, why",
    [
        ("N=900000000000", "it takes 13411 GiB of memory, and "),
        (f"N={1 << 61}", "63 bits"),
        (f"N={1 << 40}x{1 << 40}", "the dim N"),
        (f"N={1 << 80}", "a size does not fit into 63 bits"),
    ],
)
def test_a_size_that_is_too_large_is_left_out(monkeypatch, capsys, size: str, why: str) -> None:
    measured: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: measured.append(case.words()) or [a_row()]
    )
    assert cli_bench.main(["relu", *QUICK, "--size", size, "--size", "N=8"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "skipped" in line]
    assert measured == ["N=8"] and len(said) == 1
    assert f"skipped relu {size} f32 on cpu: " in said[0] and why in said[0]
    assert cli_bench.main(["relu", *QUICK, "--size", size]) == 2
    assert "nothing was measured" in capsys.readouterr().err


def test_a_file_given_twice_is_measured_once(folder: Path) -> None:
    name = source_in(folder).stem
    done = bench(f"{name}.c", f"{name}.c", *QUICK, "--size", "N=2 C=3", cwd=folder)
    assert (done.returncode, done.stdout.count("N=2 C=3")) == (0, 2), (
        done.stderr
    )  # and its backward


def test_one_that_was_asked_for_and_cannot_be_measured_is_told_by_the_exit_code(
    folder: Path,
) -> None:
    name = source_in(folder).stem
    asked = (f"{name}.c", *QUICK, "--size", "N=2 C=3", "--against")
    done = bench(*asked, "eager,broken", cwd=folder)
    assert done.returncode == 2 and "ValueError: not today" in done.stdout
    assert bench(*asked, "eager", cwd=folder).returncode == 0


def test_cores_of_a_call_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of another call that still wait for work, busily, are let come to rest first."""
    clock = {"wall": 0.0, "cpu": 0.0, "spinning": 0.012}

    def go_on(seconds: float, busy: float) -> None:
        spun = min(seconds, clock["spinning"])
        clock["wall"] += seconds
        clock["cpu"] += busy * seconds + spun
        clock["spinning"] -= spun

    class Timer:
        def timeit(self, n: int) -> None:
            go_on(n * 1e-3, 1.0)

    monkeypatch.setattr(rows.time, "sleep", lambda seconds: go_on(seconds, 0.0))
    monkeypatch.setattr(rows.time, "process_time", lambda: clock["cpu"])
    monkeypatch.setattr(rows.time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(rows.timing, "timer", lambda stmt, names: Timer())
    alone = contenders.Contender("wick", "", {})
    field = contenders.Field([alone], {}, None, set(), 1, [])
    times = {"wick": rows.Times.of([1e-3] * 3)}
    assert rows._cores(field, 2e-3, times) == pytest.approx(1.0)


def test_a_folder_one_file_of_which_does_not_build(folder: Path) -> None:
    (folder / "broken.c").write_text('#include <wick/op.h>\nWICK_OP(broken, "x: f32[N] -> ");\n')
    (folder / "helper.c").write_text("int helper;\n")
    done = bench(".", *QUICK, "--size", "N=2 C=3", "--against", "twice", cwd=folder)
    assert done.returncode == 2
    assert "broken.c:2:" in done.stderr and "helper" not in done.stderr
    assert done.stdout.count("N=2 C=3") == 2


def test_a_reference_that_does_not_load_names_its_line(folder: Path, capsys) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text("import torch\n\nnothing_of_this_name\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.py:3: NameError: " in capsys.readouterr().err
    target.load_reference.cache_clear()
    source.with_suffix(".py").write_text("import sys\nsys.exit(3)\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.py:2: SystemExit: 3" in capsys.readouterr().err
    empty = folder / "empty"
    empty.mkdir()
    assert cli_bench.main([str(empty)]) == 2
    assert "no operator file is in there" in capsys.readouterr().err


def test_a_baseline_that_nobody_has_is_refused_at_once(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda *rest: pytest.fail("nothing is to be measured"))
    source = source_in(folder)
    assert cli_bench.main([str(source), "--against", "eager,apex"]) == 2
    said = capsys.readouterr().err
    assert "--against apex: there are eager, compile, dispatcher, twice, broken; " in said
    assert f"{source.stem}_baseline_apex" in said


def test_a_file_of_sizes_serves_all_that_are_measured_with_it(
    folder: Path, monkeypatch, capsys
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(f"{op.name} {case.words()}") or []
    )
    sizes = folder / "sizes.txt"
    sizes.write_text("P=2 N=3 Q=4\n[relu]\nN=8\n[reduce_sum_dim]\nP=5 N=6 Q=7\n")
    assert cli_bench.main(["relu", "reduce_sum_dim", *QUICK, "--shapes", str(sizes)]) == 2
    assert seen == [
        *("relu N=3", "relu N=8"),
        *("reduce_sum_dim P=2 N=3 Q=4", "reduce_sum_dim P=5 N=6 Q=7"),
    ]
    sizes = folder / "others.txt"
    sizes.write_text("[nobody]\nN=8\n")
    assert cli_bench.main(["relu", "mul", *QUICK, "--shapes", str(sizes)]) == 2
    assert "there is no operator nobody: " in capsys.readouterr().err


def test_a_call_is_measured_once(monkeypatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(" ".join(case.types.values())) or []
    )
    cli_bench.main(["relu", *QUICK, "--size", "N=8 T=f64", "--types", "f32 f64"])
    assert seen == ["f64"]


def test_operators_without_a_size_are_named(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda op, case, *rest: [])
    source = source_in(folder)
    source.with_name(f"{source.stem}.shapes.txt").write_text(f"[{source.stem}]\nN=2 C=3\n")
    assert cli_bench.main([str(source), *QUICK]) == 2
    assert (
        f"not measured: {source.stem}.shapes.txt: {source.stem}_backward needs N, C"
        in capsys.readouterr().err.replace(f"{os.path.relpath(folder)}/", "")
    )


def test_names_as_reports_print_them() -> None:
    assert [op.name for op in target.find(["wick.relu", "wick::mul"], None, None)] == [
        "relu",
        "mul",
    ]


def test_what_was_measured_before_ctrl_c_is_reported(monkeypatch, capsys, tmp_path: Path) -> None:
    real, calls = rows.measure, []

    def measure(*args):
        calls.append(args)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(rows, "measure", measure)
    sizes = ("--size", "N=8", "--size", "N=16")
    found = str(tmp_path / "rows.json")
    code = cli_bench.main(["relu", *QUICK, *sizes, "--against", "eager", "--json", found])
    said = capsys.readouterr()
    assert code == 130 and "stopped before the end" in said.err
    assert "N=8" in said.out and "N=16" not in said.out
    assert len(records.read(found)[1]) == 1


def test_ctrl_c_while_the_copy_is_measured(monkeypatch, capsys) -> None:
    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(floor.Roof, "measure", stop)
    assert cli_bench.main(["relu", *QUICK, "--size", "N=8"]) == 130
    assert "stopped before anything was measured" in capsys.readouterr().err
    monkeypatch.setattr(target, "find", stop)
    assert cli_bench.main(["relu"]) == 130
    assert capsys.readouterr().err == "wick bench: stopped\n"


def test_nobody_reads(folder: Path) -> None:
    script = Path(wick.__file__).parent / "cli_bench.py"
    read, write = os.pipe()
    os.close(read)
    size = ("--size", "N=2 C=3", "--against", "wick", "--json", "rows.json")
    done = subprocess.run(
        [sys.executable, str(script), source_in(folder).name, *QUICK, *size],
        cwd=folder,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    os.close(write)
    assert done.returncode == 141 and "Traceback" not in done.stderr
    assert len(records.read(str(folder / "rows.json"))[1]) == 2


def test_made_up_sizes_grow_until_a_call_takes_long(folder: Path, monkeypatch, capsys) -> None:
    source = source_in(folder)
    sizes = source.with_name(f"{source.stem}.shapes.txt")
    sizes.unlink()
    source.with_suffix(".py").unlink()
    seen: list[int] = []

    def measure(op, case, *rest):
        n = case.dims["N"][0] * case.dims["C"]
        seen.append(n)
        return [a_row(case=case, times={"wick": rows.Times.of(5 * [n**1.5 * 3e-10])})]

    monkeypatch.setattr(rows, "measure", measure)
    monkeypatch.setattr(rows, "smallest_call", lambda *rest: {})
    cli_bench.main([str(source), *QUICK])
    left_out = [line for line in capsys.readouterr().err.splitlines() if "would take" in line]
    assert len(left_out) == 2 and max(seen) < 1 << 24  # of the operator and of its gradient
    assert left_out[0].startswith(f"wick bench: skipped {source.stem} N=")
    assert left_out[0].endswith(" s; --size measures it nevertheless")
    sizes.write_text("N=1024 C=1024\nN=4096 C=4096\n")
    cli_bench.main([str(source), *QUICK])
    assert "would take" not in capsys.readouterr().err and max(seen) == 1 << 24


@pytest.mark.parametrize(
    "known, seconds",
    [
        ([], 0.0),
        ([(100, 1.0)], 16.0),
        ([(1600, 1.0)], 0.0),
        ([(10, 1.0), (100, 0.9)], 14.4),  # noise
        ([(10, 1.0), (100, 100.0)], 25600.0),
        ([(10, 1e-9), (100, 1.0)], 256.0),
    ],
)
def test_how_long_a_larger_call_takes(known: list[tuple[int, float]], seconds: float) -> None:
    assert work.expected_s(known, 1600) == pytest.approx(seconds)


def test_sizes_go_to_the_operators_that_have_them(monkeypatch, capsys) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(f"{op.name} {case.words()}") or []
    )
    sizes = ("--size", "N=8", "--size", "P=2 N=3 Q=4")
    assert cli_bench.main(["relu", "reduce_sum_dim", *QUICK, *sizes]) == 2
    assert seen == ["relu N=8", "relu N=3", "reduce_sum_dim P=2 N=3 Q=4"]


KILLER = """#include <wick/op.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
WICK_OP(killer, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status killer_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    if (N == 7) return wick_fail(ctx, WICK_EINVAL, "7 is not taken");
    if (N == 9) HOW;
    for (int64_t i = 0; i < N; i++) y[i] = x[i];
    return WICK_OK;
}
"""


@pytest.mark.parametrize(
    "how, said",
    [("abort()", "SIGABRT"), ("raise(SIGSEGV)", "SIGSEGV"), ("_exit(0)", "exit code 0")],
)
def test_a_call_that_ends_the_process_is_named(tmp_path: Path, how: str, said: str) -> None:
    (tmp_path / "killer.c").write_text(KILLER.replace("HOW", how))
    sizes = ("--size", "N=7", "--size", "N=8", "--size", "N=9", "--size", "N=10")
    done = bench("killer.c", *QUICK, *sizes, "--json", "rows.json", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"wick bench: killer N=9 on cpu ended the process ({said})"
    )
    assert "N=8" in done.stdout and "N=9" not in done.stdout
    assert "launch-bound" in done.stdout or "disturbed" in done.stdout  # it was judged
    about, found = records.read(str(tmp_path / "rows.json"))
    assert [row.case.words() for row in found] == ["N=8"] and about["devices"][0]["copy"]
    refused = "skipped killer N=7 on cpu: killer: 7 is not taken"
    assert f"wick bench: {refused}" in done.stderr.splitlines()
    assert about["notes"] == [refused, f"killer N=9 on cpu ended the process ({said})"]
    assert page_says(about, found, about["notes"])


def page_says(facts: dict, found: list[rows.Row], wanted: list[str]) -> bool:
    from wick.bench import page

    try:
        return all(note in page.render(facts, found) for note in wanted)
    except plots.PlotsError:
        return True


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_both_processes(tmp_path: Path, number: int, code: int) -> None:
    script = Path(wick.__file__).parent / "cli_bench.py"
    (tmp_path / "slow.c").write_text(KILLER.replace("killer", "slow").replace("HOW", "sleep(60)"))
    command = [sys.executable, str(script), "slow.c", *QUICK, "--size", "N=9"]
    # A shell starts what runs in the background with Ctrl-C ignored, and that is handed on.
    as_usual = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=as_usual
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 60
        while not children.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        child = int(children.read_text())
        time.sleep(0.3)
        running.send_signal(number)
        try:
            _, said = running.communicate(timeout=100)
        finally:
            running.kill()  # else its end is waited for
    assert running.returncode == code and "Traceback" not in said
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_an_operator_that_hangs(tmp_path: Path, times: int) -> None:
    script = Path(wick.__file__).parent / "cli_bench.py"
    hang = 'do { (void)!write(2, "it hangs\\n", 9); for (;;) pause(); } while (0)'
    (tmp_path / "hang.c").write_text(KILLER.replace("killer", "hang").replace("HOW", hang))
    command = [sys.executable, str(script), "hang.c", *QUICK, "--size", "N=8", "--size", "N=9"]
    as_usual = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_usual,
    ) as running:
        try:
            before = [running.stderr.readline()]
            while before[-1] not in ("", "it hangs\n"):
                before.append(running.stderr.readline())
            began = time.monotonic()
            for _ in range(times):
                running.send_signal(signal.SIGINT)
                time.sleep(0.5)
            out, said = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130 and time.monotonic() - began < 30  # a machine may be busy
    assert said == "wick bench: hang N=9 on cpu did not react to Ctrl-C and was killed\n", before
    assert "N=8" in out and "N=9" not in out


def test_importing_wick_imports_nothing_of_it() -> None:
    code = "import sys, wick; print([m for m in sys.modules if m.startswith('wick.bench')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
