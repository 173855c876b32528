"""The documentation site builds without a warning, and has what is made from the command and the signatures."""

from __future__ import annotations

import json
import os
import re
import shutil
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
        assert "## Source { data-search-exclude }\n" in text and "## In Python\n" in text
        assert (site / "site/operators" / f"{source.stem}.html").exists()


def test_search_finds_pages_and_no_sources(site: Path) -> None:
    """A raw file has a word more often than the page that explains it."""
    index = json.loads((site / "site/search/search_index.json").read_text())
    found = [entry["location"] for entry in index["docs"]]
    assert any(place.startswith("check.html") for place in found)
    assert (site / "site/sources/examples/c_host/main.c.html").exists()
    assert not [place for place in found if re.match(r"sources/.*\.(c|cu|py|h)\.html", place)]
    assert not [place for place in found if place.endswith("#source")]


def test_blocks_have_their_language_and_no_tags_of_tests(site: Path) -> None:
    for page in (site / "docs").glob("*.md"):
        assert "with numbers of its own" not in page.read_text(), page.name
    assert 'class="language-pycon' in (site / "site/nn.html").read_text()  # for site.css, site.js


def test_links_between_pages_have_titles(site: Path) -> None:
    said = (site / "docs/reports.md").read_text() + (site / "docs/index.md").read_text()
    assert "[What is judged](check.md#what-is-judged)" in said
    assert "[Your first operator](first-operator.md)" in said
    assert not re.findall(r"\[(?:docs/)?\w+\.md\]", said)


NODE = """
const blocks = {}, listeners = [];
const of = text => ({ querySelector: () => ({ innerText: text }), setAttribute: (name, v) => said.push(v) });
const said = [], texts = JSON.parse(process.argv[2]);
globalThis.document = {
  addEventListener: (name, f) => listeners.push(f),
  querySelectorAll: selector => (texts[selector.slice(10)] || []).map(of),
};
eval(require("fs").readFileSync(process.argv[1], "utf8"));
listeners.forEach(f => f());
console.log(JSON.stringify(said));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node runs the site's script")
def test_the_copy_button_takes_what_is_typed() -> None:
    console = "$ wick list \\\n    a.so\n...\nadd  x: T[*N]\n$ wick show a.so\n"
    pycon = ">>> for i in 1, 2:\n...     print(i)\n...\n1\n2\n>>> f(\n... )\nTraceback:\n    ...\nE: x\n"
    given = json.dumps({"console": [console], "pycon": [pycon]})
    done = subprocess.run(
        ["node", "-e", NODE, ROOT / "tools/site.js", given],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [
        "wick list \\\n    a.so\nwick show a.so",
        "for i in 1, 2:\n    print(i)\n\nf(\n)",
    ]


def test_nothing_is_fetched(site: Path) -> None:
    for page in (site / "site").rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not fetched, (page.name, fetched)
