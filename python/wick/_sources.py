"""_sources -- operator files in a folder; imports nothing of wick or torch"""

from __future__ import annotations

import os
import re

SOURCES = (".c", ".cu")
MADE = {"build", "dist", "node_modules", "site-packages", "__pycache__"}


def sources_in(folder: str) -> list[str]:
    """Files that define operators, in this folder and below, but for what is hidden, made or installed there."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_ours(place, name))
        for name in sorted(files):
            path = os.path.join(place, name)
            if name.endswith(SOURCES) and _has_operators(path):
                found.append(path)
    return found


def _is_ours(place: str, name: str) -> bool:
    is_environment = os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
    return not (name.startswith(".") or name in MADE or is_environment)


def _has_operators(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.search(r"^WICK_OP\s*\(", file.read(), re.M) is not None
