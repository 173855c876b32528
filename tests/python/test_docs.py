"""The pages show what happens: their blocks are run in order, and what they print is compared.

    ```c        begins with /* NAME -- ...: written to NAME.c in an empty folder
    ```console  lines after `$ ` are run by bash, the others are what that prints
    ```pycon    a Python session (doctest; `...` stands for any text)

Blocks of other kinds are only shown. A page's Python blocks share their names.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import find_wick

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "docs/first-operator.md",
    "docs/gradients.md",
    "docs/errors.md",
    "docs/calling.md",
    "docs/nn.md",
    "docs/c-api.md",
    "examples/chapter5/README.md",
    "examples/template/README.md",
    "examples/megastep/README.md",
    "examples/rnnt/README.md",
    "examples/inductor/README.md",
]
PROGRESS = re.compile(r"wick build: (\[\d+/|built \d+ operator)")


def blocks(text: str) -> list[tuple[str, str, int]]:
    """Language, text and line number of the fenced blocks."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in found]


def run_console(text: str, where: str) -> None:
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    expected = [line for line in text.splitlines() if not line.startswith("$ ")]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["bash", "-c", "\n".join(commands)], text=True, timeout=120, **both)
    # What a build says of its progress and its time is another each time.
    said = [line for line in done.stdout.splitlines() if not PROGRESS.match(line)]
    assert said == expected, f"{where}\n{done.stdout}"


def run_python(text: str, where: str, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)
    names.update(test.globs)


def run_page(page: str) -> None:
    """Runs a page's blocks in the current folder."""
    names: dict[str, object] = {}
    ran = 0
    for kind, text, line in blocks((ROOT / page).read_text()):
        where = f"{page}:{line}"
        if kind == "c" and (head := re.match(r"/\* (\w+) -- ", text)):
            Path(f"{head[1]}.c").write_text(text)
        elif kind == "console":
            run_console(text, where)
            ran += 1
        elif kind == "pycon":
            run_python(text, where, names)
            ran += 1
    assert ran > 0, f"{page} shows nothing that runs"


def compiler_is_gcc() -> bool:
    done = subprocess.run(["cc", "--version"], capture_output=True, text=True)
    return "Free Software Foundation" in done.stdout


@pytest.mark.skipif(not compiler_is_gcc(), reason="the pages quote gcc's messages")
@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path) -> None:
    """In a process of its own: operators of other tests may have the names that a page uses."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    folders = [os.path.dirname(find_wick()), os.path.dirname(sys.executable), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "LC_ALL": "C.UTF-8"}
    environment.pop("CC", None)
    words = [sys.executable, __file__, page]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page", [*PAGES, "docs/index.md", "examples/README.md", "examples/training/README.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    source = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", source.read_text()):
        if not link.startswith("http"):
            assert (source.parent / link).exists(), f"{page}: {link}"


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, path.name


if __name__ == "__main__":
    run_page(sys.argv[1])
