"""The command: what it is asked, prints, writes and exits with."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from judging import QUICK, REFERENCE, TRIPLE, check, judged, run
from support import command

from wick._sources import sources_in
from wick.check.case import Case
from wick.check.follow import NOT_AGAIN
from wick.check.records import Options, Target
from wick.check.report import lines
from wick.check.run import _groups


def test_junit_goes_to_a_file(write: Callable[..., Path], tmp_path: Path) -> None:
    done = run(str(write()), "--junit", "-", cwd=tmp_path)
    assert done.returncode == 2 and "--junit: -: expected the name of a file" in done.stderr
    assert not (tmp_path / "-").exists()


def test_what_an_operator_leaves_running_ends_with_the_check(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    left = tmp_path / "left"
    path = write(
        "#include <wick/op.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        'WICK_OP(triple, "x: f32[N] -> y: f32[N]");\n'
        "WICK_IMPL wick_status triple_cpu(wick_ctx *c, const float *x, float *y, int64_t N)\n"
        "{\n    (void)c;\n    if (N == 7 && fork() == 0) {\n"
        f'        FILE *f = fopen("{left}", "a");\n'
        '        if (f) fprintf(f, "%d\\n", (int)getpid()), fclose(f);\n'
        "        for (;;) pause();\n    }\n"
        "    for (int64_t i = 0; i < N; i++) y[i] = 3 * x[i];\n    return WICK_OK;\n}\n"
    )
    run(str(path), "--only", "forward", "--depth", "quick")
    pids = left.read_text().split()
    assert pids
    for pid in pids:
        for _ in range(100):
            if is_gone(int(pid)):
                break
            time.sleep(0.05)
        assert is_gone(int(pid)), pid


def is_gone(pid: int) -> bool:
    """Or dead, and nobody has asked how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_fault_is_printed_with_a_line_that_shows_it_again(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write()
    out, junit = tmp_path / "found.json", tmp_path / "found.xml"
    narrow = ["--only", "forward", "--depth", "quick", "--types", "f32"]
    files = ["--json", str(out), "--junit", str(junit)]
    done = run(str(path), "--flags=-DFAULT=1", *narrow, *files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAULT forward: triple (f32)" in done.stdout
    assert "y[12] is " in done.stdout and "1 of 13 elements of y are wrong" in done.stdout
    assert "wick check: " in done.stderr  # how far it is, where nobody watches a terminal
    found = json.loads(out.read_text())
    (fault,) = found["faults"]
    assert fault["case"] == "triple T:f32 N=13" and found["code"] == 1
    (operator,) = found["operators"]
    assert operator["judges"]["forward"]["worst"] is None  # the fault says how bad it is
    assert fault["reproduce"] in done.stdout
    suites = ElementTree.parse(junit).getroot()
    assert suites.find(".//failure") is not None
    # The line as printed, in a shell.
    command = shlex.join([sys.executable, "-m", *fault["reproduce"].split(" ", 1)[:1]])
    again = subprocess.run(
        ["bash", "-c", f"{command} {fault['reproduce'].split(' ', 1)[1]}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert again.returncode == 1 and "y[12] is " in again.stdout, again.stdout + again.stderr
    sound = fault["reproduce"].replace("-DFAULT=1", "-DFAULT=0")
    fine = subprocess.run(
        ["bash", "-c", f"{command} {sound.split(' ', 1)[1]}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert fine.returncode == 0, fine.stdout + fine.stderr


def test_without_faults_the_code_is_0_and_json_may_go_to_stdout(write: Callable[..., Path]) -> None:
    path = write()
    done = run(path.name, "--only", "forward,memory", "--depth=quick", "--json=-", cwd=path.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["code"] == 0 and found["faults"] == [] and found["unchecked"] == []
    judges = found["operators"][0]["judges"]
    assert judges["forward"]["cases"] > 50 and judges["memory"]["cases"] > 50


@pytest.mark.parametrize(
    "words, said",
    [
        (["--only", "nothing"], "nothing is no judge; there are forward, gradient,"),
        (["--types", "f99"], "f99 is no element type"),
        (["--depth", "deep"], "invalid choice: 'deep'"),
        (["--sead", "1"], "unrecognized arguments"),
    ],
)
def test_what_is_asked_wrongly_is_told(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr


def test_what_is_not_there_cannot_be_checked(tmp_path: Path) -> None:
    report = check(
        [Target(None, ("rellu",), label="rellu"), Target(str(tmp_path / "no.c"), label="no.c")],
        Options(jobs=1),
    )
    assert report.code == 2
    words = "\n".join(report.unjudged())
    assert "rellu: there is no operator rellu (did you mean relu?)" in words and "no.c" in words


def test_a_source_that_does_not_build_cannot_be_checked(write: Callable[..., Path]) -> None:
    report = judged(write(TRIPLE.replace("(void)ctx;", "(void)contex;")))
    assert report.code == 2
    assert "triple.c:8:" in report.unjudged()[0] and "contex" in report.unjudged()[0]


def test_shipped_operators_are_checked_by_name() -> None:
    report = check([Target(None, ("mul",), label="mul")], Options(**QUICK, types=["bf16"]))
    assert report.code == 0
    assert [s.name for s in report.subjects] == ["mul", "mul_backward"]
    assert report.subjects[0].reference is not None
    assert report.subjects[0].tallies["forward"].worst <= 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_of_several_files_is_judged_as_if_alone(write: Callable[..., Path], jobs: int) -> None:
    """A fault is shown again in a process that has called nothing. It is not the next file's."""
    for name in ("first", "second", "sound"):
        text = TRIPLE.replace("triple", name)
        if name != "sound":
            text = text.replace("#define FAULT 0", "#define FAULT 1")
        path = write(text, REFERENCE.replace("triple", name), name)
    files = [Target(str(path.with_stem(n)), label=n) for n in ("first", "second", "sound")]
    options = Options(**{**QUICK, "only": ["forward", "repeat"], "jobs": jobs})
    together, alone = check(files, options), check(files[2:], options)
    assert [(f.subject, f.target.label) for f in together.faults] in (
        [("first", "first"), ("second", "second")],
        [("second", "second"), ("first", "first")],
    )
    assert not together.errors and all(NOT_AGAIN not in f.details for f in together.faults)
    assert sorted(s.name for s in together.subjects) == ["first", "second", "sound"]
    sound = next(s for s in together.subjects if s.name == "sound")
    counts = {judge: tally.cases for judge, tally in sound.tallies.items()}
    assert counts == {judge: tally.cases for judge, tally in alone.subjects[0].tallies.items()}


def test_more_time_is_used_for_more_seeds(write: Callable[..., Path]) -> None:
    path = write()
    once = judged(path, types=["f32"], only=["refuse"])
    more = judged(path, types=["f32"], only=["refuse"], seconds=once.seconds + 3)
    assert more.cases > once.cases and more.code == 0


def test_what_takes_longer_than_it_may_is_left_out_and_told(write: Callable[..., Path]) -> None:
    report = judged(write(), limit=1e-6, only=["forward", "repeat"], depth="default")
    words = "\n".join(w for w, _ in lines(report))
    assert report.code == 0 and 0 < report.subjects[0].tallies["repeat"].cases < 10
    for judge in ("forward", "repeat"):
        assert f"the 1e-06 s of work for {judge} are over (--limit)" in words
    done = run(str(write()), "--limit=0", "--only=repeat", "--depth=quick")
    assert done.returncode == 0 and "--limit" not in done.stdout
    assert Options(depth="full").seconds_of_work == 0 < Options().seconds_of_work
    assert Options(limit=7.0, depth="full").seconds_of_work == 7.0


def test_the_first_cases_are_of_all_kinds() -> None:
    """Of what takes too long, these are all that is judged."""
    first = Case("triple", {"T": "f32"}, {"N": (3,)})
    few = random.Random(0).sample(range(2, 5000), 4998)
    groups = _groups([first.with_dim("N", (n,)) for n in (30_000_000, *few)])
    cheap, dear, large = ([c.numel for c in groups[size]] for size in sorted(groups)[::-1])
    assert max(cheap) == 300 and large == [30_000_000] and len(cheap) + len(dear) == 4998
    assert max(cheap[:60]) > 200 and min(cheap[:60]) < 100
    assert max(dear[:200]) < 512 and min(dear[-900:]) > 4095
    assert dear[:200] != sorted(dear[:200])


def test_the_first_fault_is_one(write: Callable[..., Path]) -> None:
    path = write(
        TRIPLE.replace("(T)(by * x[i])", "(FAULT == 2 ? x[i < 3 ? 2 : i] : (T)(by * x[i]))")
    )
    everything = judged(path, ("-DFAULT=2",), depth="default")
    assert {f.judge for f in everything.faults} == {"forward", "memory"}
    assert len(judged(path, ("-DFAULT=2",), first=True, jobs=2).faults) == 1


def test_another_seed_draws_other_cases(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1 && i == 12", "x[0] > 0.3f && x[0] < 0.6f"))
    found = {
        judged(path, types=["f32"], only=["forward"], seed=s, first=True).faults[0].case.text()
        for s in (1, 2)
    }
    assert len(found) == 2


def test_a_file_of_the_name_of_one_of_pythons_modules_is_not_imported_as_it(
    write: Callable[..., Path],
) -> None:
    """copy.py beside copy.c, which torch would take for its own in the folder where wick check is called."""
    path = write(TRIPLE.replace("triple", "copy"), REFERENCE.replace("triple", "copy"), "copy")
    words = [command(), "check", path.name, "--only", "forward", "--types", "f32"]
    done = subprocess.run(
        [*words, "--depth", "quick"], cwd=path.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reference copy.py" in done.stdout


@pytest.mark.parametrize("inside", [True, False])
def test_a_reference_may_import_what_lies_beside_it(
    write: Callable[..., Path], tmp_path: Path, inside: bool
) -> None:
    path = write(reference=f"import thrice_\n{REFERENCE.replace('3.0', 'thrice_.FACTOR')}")
    path.with_name("thrice_.py").write_text("FACTOR = 3.0\n")
    where = path.parent if inside else Path("/")
    done = run(str(path), "--only", "forward", "--types", "f32", "--depth", "quick", cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["missing.c"], "wick check: missing.c: there is no such file or folder"),
        (["empty"], "wick check: no operator file is in empty"),
        (["relu", "--reference", "nope.py"], "--reference: nope.py: there is no such file"),
        (["relu", "--reference", "empty"], "--reference: empty: this is a folder"),
        (["relu", "--reference", "/dev/null"], "--reference: /dev/null: expected Python"),
        (["empty/nothing"], "wick check: empty/nothing: there is no such file or folder"),
    ],
)
def test_what_is_not_there_is_told_at_once(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


def test_a_reference_that_cannot_be_used_is_named_in_front(write: Callable[..., Path]) -> None:
    path = write(reference=REFERENCE.replace("def triple", "def tripel"))
    done = run(
        str(path), "--reference", str(path.with_suffix(".py")), "--types", "f32", "--depth", "quick"
    )
    assert done.returncode == 2
    head = done.stdout.splitlines()[1]
    assert head.startswith("  no reference: ") and head.endswith(
        "no function triple; it has tripel"
    )
    assert "against its own widest type" in done.stdout


def test_a_folder_is_looked_through_but_for_what_is_hidden_or_made(tmp_path: Path) -> None:
    for name in (".venv/a.c", "build/b.c", "env/pyvenv.cfg", "env/c.c", "ops/d.c", "e.c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('WICK_OP(f, "x: f32[N] -> ()");\n')
    assert sources_in(str(tmp_path)) == [f"{tmp_path}/e.c", f"{tmp_path}/ops/d.c"]


def test_what_went_in_is_shown_where_it_is_little(write: Callable[..., Path]) -> None:
    path = write(TRIPLE, REFERENCE.replace("3.0", "2.0"))
    (fault, *_) = judged(path, only=["forward"], types=["f32"]).faults
    given = next(line for line in fault.details if line.startswith("with "))
    value = re.fullmatch(r"with x = \[?([-+.e\d]+)\]?, by = 3", given)
    assert value and f"is {3 * float(value[1]):.9g}"[:9] in fault.title, (fault.title, given)
