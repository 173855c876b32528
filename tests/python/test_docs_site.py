"""The documentation site builds without a warning, and has what is made from the command and the signatures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import VERBS, find_wick

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "site.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """build/ of a site of its own."""
    pytest.importorskip("mkdocs", reason="make docs installs it")
    pytest.importorskip("material", reason="make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--output", folder],
        env={**os.environ, "WICK_CLI": find_wick()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_requirements_are_pinned() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--requires"], capture_output=True, text=True)
    assert done.returncode == 0 and "mkdocs-material==" in done.stdout
    assert all("==" in line for line in done.stdout.splitlines())


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "site" / f"{page.stem}.html").exists(), page.name


def test_the_command_has_its_reference(site: Path) -> None:
    text = (site / "docs/cli.md").read_text()
    assert re.findall(r"^## wick (\w+)$", text, re.M) == list(VERBS)
    for verb in VERBS:
        assert f"Usage: wick {verb} " in text


def test_every_operator_has_a_page(site: Path) -> None:
    for source in ROOT.glob("ops/*/*.c"):
        text = (site / "docs/operators" / f"{source.stem}.md").read_text()
        for name in re.findall(r"^WICK_OP\((\w+)", source.read_text(), re.M):
            assert f"\n## {name}\n" in text, name
        assert "## Source\n" in text and "## In Python\n" in text
        assert (site / "site/operators" / f"{source.stem}.html").exists()


def test_nothing_is_fetched(site: Path) -> None:
    for page in (site / "site").rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not fetched, (page.name, fetched)
