"""Modules of this package in processes of their own, whatever files lie in the current folder.

`python -m` looks there first: with a copy.py in it, the reference of a copy.c, torch would import that.
Only the standard library: this side imports neither torch nor wick.
"""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START = (
    "import sys; sys.path[:1] == [''] and sys.path.append(sys.path.pop(0)); import runpy; "
    "runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: object) -> list[str]:
    """As python -m does it, but with the current folder as the last place to look."""
    return [sys.executable, "-c", _START.format(module), *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Ours, in which this package is found."""
    paths = (os.path.dirname(_PACKAGE), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
