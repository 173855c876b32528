"""The pages show what happens: their blocks are run in order, and what they print is compared.

    ```c        begins with /* NAME -- ...: written to NAME.c in an empty folder
    ```console  lines after `$ ` are run by bash, the others are what that prints (`...`: any text)
    ```pycon    a Python session (doctest; `...` stands for any text)

A title says more: title="FILE" writes the block to FILE, title="FILE, continued" appends it, and
title="on a GPU" leaves it out where there is none, title="with numbers of its own" on a console takes
any number for a number. Blocks of other kinds are only shown. A page's Python blocks share their names.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from test_cli import find_wick
from test_show import has_nvrtc

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "docs/first-operator.md",
    "docs/cuda.md",
    "docs/gradients.md",
    "docs/compile.md",
    "docs/errors.md",
    "docs/check.md",
    "docs/reports.md",
    "docs/calling.md",
    "docs/nn.md",
    "docs/c-api.md",
    "examples/chapter5/README.md",
    "examples/template/README.md",
    "examples/megastep/README.md",
    "examples/rnnt/README.md",
    "examples/inductor/README.md",
]
PIP = {"NO_INDEX": "1", "NO_DEPS": "1", "CONFIG_FILE": os.devnull, "ROOT_USER_ACTION": "ignore"}
NUMBER = re.compile(r"(?<![A-Za-z])\d(?:[\d,]|\\?\.(?=\d))*")
PROGRESS = re.compile(r"wick build: (\[\d+/|built \d+ operator)")


@dataclass
class Block:
    kind: str
    title: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks."""
    found = re.finditer(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', text, re.M | re.S)
    return [Block(m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 1) for m in found]


def pattern_of(expected: list[str], any_number: bool) -> str:
    """What is printed, as a regular expression."""
    pattern = r"\n".join(re.escape(line).replace(r"\.\.\.", ".*") for line in expected)
    return NUMBER.sub(lambda _: NUMBER.pattern, pattern) if any_number else pattern


def run_console(text: str, where: str, any_number: bool) -> None:
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    expected = [line for line in text.splitlines() if not line.startswith("$ ")]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["bash", "-c", "\n".join(commands)], text=True, timeout=240, **both)
    # What a build says of its progress and its time is another each time.
    said = [line for line in done.stdout.splitlines() if not PROGRESS.match(line)]
    pattern = pattern_of(expected, any_number)
    assert re.fullmatch(pattern, "\n".join(said), re.S), f"{where}\n{done.stdout}"


def run_python(text: str, where: str, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)
    names.update(test.globs)


def write_block(block: Block) -> None:
    """The file that a block says it is."""
    name, _, continued = block.title.partition(", ")
    head = re.match(r"/\* (\w+) -- ", block.text) if block.kind == "c" else None
    if "." in name:
        with open(name, "a" if continued else "w") as f:
            f.write(block.text)
    elif head:
        Path(f"{head[1]}.c").write_text(block.text)


def run_page(page: str) -> None:
    """Runs a page's blocks in the current folder."""
    names: dict[str, object] = {}
    ran = 0
    for block in blocks((ROOT / page).read_text()):
        where = f"{page}:{block.line}"
        write_block(block)
        if block.title == "on a GPU" and not torch.cuda.is_available():
            continue
        if block.kind == "console":
            run_console(block.text, where, block.title == "with numbers of its own")
            ran += 1
        elif block.kind == "pycon":
            run_python(block.text, where, names)
            ran += 1
    assert ran > 0, f"{page} shows nothing that runs"


def test_any_number_is_a_number() -> None:
    pattern = pattern_of(["f16: 1,204 cases, y[3] is 0.25, ... s"], True)
    assert re.fullmatch(pattern, "f16: 7 cases, y[12] is 1.5, 3.4 s")
    assert not re.fullmatch(pattern, "f32: 7 cases, y[12] is 1.5, 3.4 s")
    assert not re.fullmatch(pattern, "f16: no cases, y[12] is 1.5, 3.4 s")
    assert not re.fullmatch(pattern_of(["1 case"], False), "2 case")


def compiler_is_gcc() -> bool:
    done = subprocess.run(["cc", "--version"], capture_output=True, text=True)
    return "Free Software Foundation" in done.stdout


@pytest.mark.skipif(not compiler_is_gcc(), reason="the pages quote gcc's messages")
@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, tmp_path: Path) -> None:
    """In a process of its own: operators of other tests may have the names that a page uses."""
    if page == "docs/cuda.md" and not has_nvrtc():
        pytest.skip("NVRTC is not installed")
    if page == "docs/first-operator.md":
        pytest.importorskip("scikit_build_core", reason="its last step builds a package")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    folders = [os.path.dirname(find_wick()), os.path.dirname(sys.executable), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "LC_ALL": "C.UTF-8"}
    environment.pop("CC", None)
    # What a page installs goes into its own folder, and nothing is fetched for it.
    environment |= {f"PIP_{name}": value for name, value in PIP.items()}
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment |= {"PIP_TARGET": str(tmp_path / "site"), "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, __file__, page]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_kernels_of_the_pages_compile(tmp_path: Path, monkeypatch) -> None:
    """Where there is no GPU to run them on: every file of every page that has one."""
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        for block in blocks((ROOT / page).read_text()):
            write_block(block)
    files = [p for p in sorted(Path().glob("*.c*")) if "__global__" in p.read_text()]
    assert [p.name for p in files] == [
        "existing.cu",
        "row_shares.cu",
        "soft_sign.cu",
        "unit_rows.c",
        "wrong.cu",
    ]
    for file in files:
        if file.name == "existing.cu" and not shutil.which("nvcc"):
            continue
        words = [find_wick(), "build", file.name, "-o", f"{file.stem}.so", "--arch", "sm_90"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240)
        assert (done.returncode == 0) == (file.name != "wrong.cu"), done.stderr


@pytest.mark.parametrize(
    "page", [*PAGES, "docs/index.md", "examples/README.md", "examples/training/README.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    source = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", source.read_text()):
        if not link.startswith("http"):
            assert (source.parent / link).exists(), f"{page}: {link}"


def test_commands_that_are_only_shown_exist() -> None:
    """Verbs and options, in blocks and in running text, of all pages."""
    helps: dict[str, str] = {}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for command in re.findall(
            r"(?:^\$? ?|`)wick ([a-z]+(?![:\w])[^`\n]*)", page.read_text(), re.M
        ):
            verb, *words = command.split("#")[0].split()
            if verb not in helps:
                done = subprocess.run([find_wick(), verb, "--help"], capture_output=True, text=True)
                assert done.returncode == 0, f"{page.name}: wick {command}"
                helps[verb] = done.stdout
            for option in [w.split("=")[0] for w in words if re.match(r"--[a-z]", w)]:
                assert option in helps[verb], f"{page.name}: wick {command}"
    assert {"bench", "check", "show", "build", "new", "tune", "doctor", "cache"} <= set(helps)


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index, path.name


if __name__ == "__main__":
    run_page(sys.argv[1])
