"""Checks that docs/architecture.md names every mutable global: they are few, each with its reason.

Reads the symbol tables of the objects of the `dev` build. Constants are no globals here: neither
.rodata nor .data.rel.ro, which the loader seals after relocation.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUTABLE = re.compile(
    r" O \.(?:bss|data|tbss|tdata)(?!\.rel\.ro)[\w.]*\s+\w+\s+(?:\.hidden )?(\S+)$"
)


def globals_of(objects: list[Path]) -> set[tuple[str, str]]:
    found = set()
    for path in objects:
        table = subprocess.run(
            ["objdump", "-t", str(path)], capture_output=True, text=True, check=True
        ).stdout
        for line in table.splitlines():
            match = MUTABLE.search(line)
            if match is not None:
                source = path.parts[-4] + "/" + path.name.removesuffix(".o")
                found.add((source, match[1].split(".")[0]))
    return found


def main() -> int:
    objects = sorted(ROOT.glob("build/dev/src/*/CMakeFiles/*/*.o"))
    if not objects:
        print("no objects under build/dev: build first")
        return 1
    page = (ROOT / "docs/architecture.md").read_text()
    missing = [(s, n) for s, n in sorted(globals_of(objects)) if f"`{n}`" not in page]
    for source, name in missing:
        print(f"src/{source}: the global `{name}` is not in the list of docs/architecture.md")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
