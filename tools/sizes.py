"""Prints how long files and functions are, and fails where the house rules say: split it.

A C file stops at 600 lines, a function at 80, an operator's file and a public header at 400. A
function that owns something ends in `done:`; WICK_TRY in it would return past that label, so the
two together fail as well. Functions are found by the formatter's own rule: they open and close with
a brace in column 0.
"""

import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    ("src/**/*.c", 600),
    ("ops/**/*.c", 400),
    ("include/wick/*.h", 400),
    ("tests/**/*.c", 1000),
)
FUNCTION_LINES = 80


def functions(lines: list[str]) -> list[tuple[int, str, list[str]]]:
    """Line number, name and body of every function whose braces stand in column 0."""
    found = []
    opened = None
    for number, line in enumerate(lines):
        if line == "{":
            opened = number
        elif line == "}" and opened is not None:
            head = " ".join(lines[max(0, opened - 6) : opened])
            names = re.findall(r"(\w+)\(", head)
            found.append((opened + 1, names[-1] if names else "?", lines[opened : number + 1]))
            opened = None
    return found


def main() -> int:
    problems = []
    for pattern, limit in FILES:
        lengths: list[tuple[int, str]] = []
        bodies: list[tuple[int, str]] = []
        for path in sorted(ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            lines = path.read_text().splitlines()
            lengths.append((len(lines), name))
            if len(lines) > limit:
                problems.append(f"{name}: {len(lines)} lines, more than {limit}")
            for number, function, body in functions(lines):
                bodies.append((len(body), f"{name}:{number}"))
                if len(body) > FUNCTION_LINES and not name.startswith("tests/"):
                    too_long = f"{function} has {len(body)} lines, more than {FUNCTION_LINES}"
                    problems.append(f"{name}:{number}: {too_long}")
                text = "\n".join(body)
                if re.search(r"^done:", text, re.M) and "WICK_TRY(" in text:
                    problems.append(f"{name}:{number}: {function} uses WICK_TRY and owns something")
        if lengths:
            longest, where = max(lengths)
            median = statistics.median(n for n, _ in lengths)
            line = f"{pattern}: {len(lengths)} files, {sum(n for n, _ in lengths)} lines, "
            line += f"median {median:g}, longest {longest} ({where})"
            if bodies:
                longest, where = max(bodies)
                median = statistics.median(n for n, _ in bodies)
                line += f"; functions: median {median:g}, longest {longest} ({where})"
            print(line)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
