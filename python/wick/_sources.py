"""_sources -- operator files in a folder; imports nothing of wick or torch"""

from __future__ import annotations

import os
import re

SOURCES = (".c", ".cu")


def sources_in(folder: str) -> list[str]:
    """Files that define operators, in this folder and below."""
    found = []
    for place, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            path = os.path.join(place, name)
            if name.endswith(SOURCES) and _has_operators(path):
                found.append(path)
    return found


def _has_operators(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.search(r"^WICK_OP\s*\(", file.read(), re.M) is not None
