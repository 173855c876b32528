"""site -- the pages of the documentation site: docs/, and what is made from the command and the signatures.

    python tools/site.py [--output DIR]     the site is DIR/site (build/site), its pages DIR/docs
    python tools/site.py --requires         what that needs, as pyproject.toml pins it

What is made here, and therefore cannot fall behind: the command's reference, from the help texts; a page
per shipped operator, from its signature, its reference and its source; the sources that pages link to.
The page list of docs/index.md is the order of the navigation.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".cu": "cuda",
    ".py": "python",
    ".txt": "text",
    ".md": "markdown",
}
SECTIONS = (  # of the navigation, by the pages of docs/index.md; what is in none is a guide
    ("Start", ("first-operator.md",)),
    ("Guides", ()),
    ("Reference", ("signature.md", "errors.md", "c-api.md", "troubleshooting.md")),
    ("Contributing", ("architecture.md",)),
)
RENAMED = {  # pages that are called otherwise on the site
    Path("README.md"): "index.md",
    Path("docs/index.md"): "pages.md",
    Path("CHANGELOG.md"): "changelog.md",
}
TAGS = (' title="with numbers of its own"',)  # of blocks, for the test of the pages alone
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def requires() -> list[str]:
    """The extra `docs`."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    with open(ROOT / "pyproject.toml", "rb") as f:
        return tomllib.load(f)["project"]["optional-dependencies"]["docs"]


def wick(*words: str) -> str:
    """What the command says. $WICK_CLI, the one beside this Python, or the one on the PATH."""
    beside = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    command = os.environ.get("WICK_CLI") or shutil.which("wick", path=beside)
    if not command:
        sys.exit("site: the wick command was not found: make build")
    return subprocess.run([command, *words], check=True, capture_output=True, text=True).stdout


def fenced(text: str, language: str) -> str:
    """A block of code, whatever backticks are in it."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def title_of(path: Path) -> str:
    head = re.search(r"^# (.+)$", path.read_text(), re.M)
    return head[1].replace("`", "") if head else path.stem


def heading_of(path: Path, anchor: str) -> str:
    """The heading that an anchor (`#what-is-judged`) stands for; without one, the page's title."""
    for heading in re.findall(r"^##+ (.+)$", path.read_text(), re.M):
        words = re.sub(r"[^\w\s-]", "", heading.lower())
        if re.sub(r"[-\s]+", "-", words).strip("-") == anchor.lstrip("#"):
            return heading.replace("`", "")
    return title_of(path)


class Site:
    """Pages by their path, relative to the folder that mkdocs reads."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}

    # ---- pages that are there ----

    def add_docs(self) -> None:
        for path, name in RENAMED.items():
            self.add_page(ROOT / path, name)
        for path in sorted((ROOT / "docs").glob("*.md")):
            if path.relative_to(ROOT) not in RENAMED:
                self.add_page(path, path.name)

    def add_page(self, path: Path, name: str) -> None:
        def link(found: re.Match[str]) -> str:
            text, leads, anchor = found[1], found[2], found[3] or ""
            if text == leads and leads.endswith(".md"):  # a file's name says little on a site
                text = heading_of(path.parent / leads, anchor)
            opening = "" if text is None else f"[{text}"
            return f"{opening}]({self.target(path, leads, name)}{anchor})"

        # Not inside of code: blocks, and words between backticks.
        parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", path.read_text(), flags=re.M | re.S)
        # (Of a link whose text has some, the text is in another part.)
        pattern = re.compile(r"(?:\[([^][]*))?\]\(([^)#\s]+)(#[^)\s]*)?\)")
        for i in range(0, len(parts), 2):
            parts[i] = pattern.sub(link, parts[i])
        for i in range(1, len(parts), 2):
            head, newline, rest = parts[i].partition("\n")
            for tag in TAGS:
                head = head.replace(tag, "")
            parts[i] = head + newline + rest
        self.pages[name] = "".join(parts)

    def target(self, page: Path, link: str, name: str) -> str:
        """Where a link of a page leads on the site."""
        if re.match(r"[a-z]+:", link):
            return link
        path = (page.parent / link).resolve()
        inside = path.relative_to(ROOT)
        if not path.exists():
            sys.exit(f"site: {page.relative_to(ROOT)} links to {inside}, which is not there")
        if inside in RENAMED:
            leads = RENAMED[inside]
        elif inside.parent == Path("docs"):
            leads = inside.name
        else:
            leads = self.add_source(inside)
        return os.path.relpath(leads, os.path.dirname(name) or ".")

    def add_source(self, path: Path) -> str:
        """A page with a file of the repository, or with the list of a folder. The search leaves it out:
        whoever looks for a word wants the page that explains it."""
        name = f"sources/{path}.md"
        if name in self.pages:
            return name
        if (ROOT / path).is_dir():
            self.pages[name] = ""  # a folder may link to itself
            entries = sorted(
                p for p in (ROOT / path).iterdir() if p.suffix in LANGUAGES or p.is_dir()
            )
            links = [
                f"- [{p.name}]({os.path.relpath(self.add_source(p.relative_to(ROOT)), os.path.dirname(name))})"
                for p in entries
                if not p.name.startswith((".", "__"))
            ]
            text = "\n".join(links)
        elif path.suffix == ".md":
            self.add_page(ROOT / path, name)
            return name
        else:
            text = fenced((ROOT / path).read_text(), LANGUAGES.get(path.suffix, "text"))
        self.pages[name] = f"{UNSEARCHED}# {path}\n\n{text}"
        return name

    # ---- pages that are made ----

    def add_command(self) -> None:
        """The reference of the command, from what it says of itself."""
        summary = wick("--help")
        verbs = re.findall(r"^  (\w+) ", summary.split("Verbs:")[1].split("\nOptions:")[0], re.M)
        text = ["# The command\n", "`wick VERB --help` prints the same.\n", fenced(summary, "text")]
        for verb in verbs:
            text += [f"## wick {verb}\n", fenced(wick(verb, "--help"), "text")]
        self.pages["cli.md"] = "\n".join(text)

    def add_operators(self) -> None:
        """A page per shipped source, with all that follows from its signatures."""
        rows = [
            "# Operators\n",
            "The operators that come with Wick: `wick.ops.NAME`, `torch.ops.wick.NAME`.\n",
        ]
        rows += ["| operator | signature |", "|---|---|"]
        for path in sorted(ROOT.glob("ops/*/*.c*")):
            name = f"operators/{path.stem}.md"
            for line in wick("list", str(path)).splitlines():
                operator, signature = line.split(maxsplit=1)
                short = operator.split(".")[-1]
                breakable = short.replace("_", "_<wbr>")  # a phone has no room for the longest
                escaped = signature.replace("|", "\\|")
                rows.append(f"| [{breakable}]({path.stem}.md) | `{escaped}` |")
            self.pages[name] = self.operator_page(path)
        self.pages["operators/index.md"] = "\n".join(rows) + "\n"

    def operator_page(self, path: Path) -> str:
        said = wick("show", str(path)).split("\ncompiled by")[0]
        doc, _, rest = said.partition("\n\n" + path.stem)
        head, _, about = doc.partition("\n\n")
        text = [f"# {path.stem}\n", head.partition(" -- ")[2] + "\n", about + "\n"]
        for each in (path.stem + rest).split("\n\n"):
            text += [f"## {each.split('(')[0]}\n", fenced(each, "text")]
        text += ["## In Python\n", fenced(wick("show", str(path), "--stub"), "{ .python .wraps }")]
        reference = path.with_suffix(".py")
        if reference.exists():
            text += [
                "## Reference { data-search-exclude }\n",
                fenced(reference.read_text(), "python"),
            ]
        text += [
            "## Source { data-search-exclude }\n",
            fenced(path.read_text(), LANGUAGES[path.suffix]),
        ]
        return "\n".join(text)

    # ---- the whole ----

    def navigation(self) -> str:
        """mkdocs' `nav`: the pages in the order of docs/index.md."""
        listed = re.findall(
            r"^\| \[[^]]+\]\(([^)#]+\.md)\)", (ROOT / "docs/index.md").read_text(), re.M
        )
        placed = {name for _, names in SECTIONS for name in names}
        lines = ["nav:", "  - Overview: index.md"]
        for section, names in SECTIONS:
            lines.append(f"  - {section}:")
            own = [n for n in listed if (n in names if names else n not in placed)]
            lines += [f"      - {title_of(ROOT / 'docs' / n)!r}: {n}" for n in own]
            if section == "Start":
                lines += ["      - All pages: pages.md"]
            if section == "Contributing":
                lines += ["      - Changes: changelog.md"]
            if section == "Reference":
                operators = sorted(
                    n for n in self.pages if n.startswith("operators/") and "index" not in n
                )
                lines += ["      - The command: cli.md", "      - Operators:"]
                lines += ["          - All: operators/index.md"]
                lines += [f"          - {Path(n).stem}: {n}" for n in operators]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in self.pages.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("site.css", "site.js"):
            shutil.copy(ROOT / "tools" / name, folder)


def build(pages: Path, output: Path) -> int:
    site = Site()
    site.add_docs()
    site.add_command()
    site.add_operators()
    site.write(pages)
    settings = pages.parent / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text()
    text = re.sub(r"^docs_dir:.*$", f"docs_dir: {pages}", text, flags=re.M)
    text = re.sub(r"^site_dir:.*$", f"site_dir: {output}", text, flags=re.M)
    settings.write_text(text + "\n" + site.navigation())
    # Not --quiet: it keeps warnings from counting. The variable: mkdocs-material announces its future.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(settings)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, env=quiet, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requires", action="store_true", help="print the requirements and end")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build", help="the folder of docs/ and site/"
    )
    options = parser.parse_args()
    if options.requires:
        print("\n".join(requires()))
        return 0
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    code = build(output / "docs", output / "site")
    if code == 0:
        print(f"{output / 'site' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
