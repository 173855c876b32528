"""wick.testing, and the plugin of pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from judging import TRIPLE, run

import wick
import wick.testing


def test_check_raises_what_it_found(write: Callable[..., Path]) -> None:
    path = write()
    report = wick.testing.check(path, only=["forward"], depth="quick", types=["f32"])
    assert report.code == 0
    with pytest.raises(AssertionError, match=r"FAULT forward: triple \(f32\)"):
        wick.testing.check(
            path, only=["forward"], depth="quick", types=["f32"], flags=["-DFAULT=1"]
        )
    path.with_suffix(".py").unlink()
    with pytest.raises(wick.testing.NotChecked, match="there is no reference"):
        wick.testing.check(path, only=["forward"], depth="quick", types=["f64"])


def test_an_operator_is_taken_in_any_form(write: Callable[..., Path]) -> None:
    loaded = wick.load(write())
    narrow = {"only": ["refuse"], "types": ["f32"]}
    for what in (loaded, loaded.triple, torch.ops.local.triple, torch.ops.local.triple.default):
        report = wick.testing.check(what, **narrow)
        assert [s.name for s in report.subjects] == ["triple"]
    for what in (wick.ops.relu, "relu", "wick.relu"):
        assert wick.testing.check(what, **narrow).subjects[0].name == "relu"
    report = wick.testing.check(loaded, only="refuse, leak", types="f32 f64", flags="-DFAULT=0 -O1")
    assert report.options.only == ["refuse", "leak"] and report.options.types == ["f32", "f64"]
    with pytest.raises(ValueError, match="types: 'f23' is none of f16"):
        wick.testing.check(loaded, types="f23")
    with pytest.raises(TypeError, match="neither a file nor an operator"):
        wick.testing.check(torch.relu)
    with pytest.raises(ValueError, match="only: 'forwards' is none of forward"):
        wick.testing.check(loaded, only=["forwards"])
    text = wick.load(source=TRIPLE.replace("triple", "tripled"))
    with pytest.raises(wick.testing.NotChecked, match="give the file"):
        wick.testing.check(text.tripled)


def test_sources_are_tests_to_pytest(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1", "1"))
    (path.parent / "plain.c").write_text("int x;\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "wick.testing", "-v", "-p", "no:cacheprovider"),
            *("--wick-only", "forward,memory,huge", "--wick-depth", "quick", str(path.parent)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "triple.c::forward FAILED" in done.stdout and "triple.c::memory PASSED" in done.stdout
    assert "y[12] is " in done.stdout and "wick check" in done.stdout
    assert re.search(r"^1 fault$", done.stdout, re.M)


def pytest_says(folder: Path, *words: str) -> str:
    """What pytest, with the plugin, prints."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "wick.testing", "-p", "no:cacheprovider", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=folder,
    )
    return done.stdout + done.stderr


def test_what_does_not_build_fails_once(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("(void)ctx;", "(void)cxt;"))
    said = pytest_says(path.parent, "-rs", "--wick-only", "forward,memory,leak", path.name)
    assert "1 failed, 2 skipped" in said
    assert said.count("'cxt' undeclared") <= 2, said  # the report, and pytest's summary
    assert re.search(r"^_+ triple\.c: forward _+$", said, re.M)
    assert "triple.c could not be checked: forward says why" in said


def test_a_judge_that_is_misspelt_is_a_usage_error(write: Callable[..., Path]) -> None:
    path = write()
    said = pytest_says(path.parent, "--wick-only", "forwad", path.name)
    assert "ERROR: --wick-only: 'forwad' is none of forward, " in said
    assert "Traceback" not in said and "testing.py" not in said
    assert "invalid choice: 'fast'" in pytest_says(path.parent, "--wick-depth", "fast", path.name)


@pytest.mark.parametrize("only", ["forward", "forward,leak"])
def test_what_crashes_fails_whatever_is_asked_of_it(write: Callable[..., Path], only: str) -> None:
    """A crash is told under `memory`, which is no test here."""
    path = write(TRIPLE.replace("(void)ctx;", "if (N > 9) __builtin_trap();\n    (void)ctx;"))
    options = ("--wick-only", only, "--wick-depth", "quick", str(path))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "wick.testing", "-p", "no:cacheprovider"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert done.returncode == 1 and "FAULT memory: triple" in done.stdout, done.stdout + done.stderr
    assert "FAILED triple.c::forward" in done.stdout


def test_control_characters_do_not_spoil_the_xml(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    junit = tmp_path / "found.xml"
    bad = "def triple(x, by=3.0):\n    raise TypeError('\\x1b[31mred\\x00')\n"
    done = run(str(write(TRIPLE, bad)), "--only=forward", "--depth=quick", f"--junit={junit}")
    assert done.returncode == 2
    (error,) = ElementTree.parse(junit).getroot().iter("error")
    assert "?[31mred?" in error.attrib["message"]


def test_a_test_that_fails_shows_the_report_and_no_code_of_ours(write: Callable[..., Path]) -> None:
    path = write(TRIPLE.replace("FAULT == 1", "1"))
    test = "import wick.testing\ndef test_it():\n    wick.testing.check('triple.c', depth='quick', only='forward')\n"
    (path.parent / "test_it.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        cwd=path.parent,
    )
    assert "FAULT forward: triple" in done.stdout and "1 failed" in done.stdout
    assert "raise AssertionError" not in done.stdout
