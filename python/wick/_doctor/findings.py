"""findings -- what a check found, how bad it is, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, PROBLEM, UNKNOWN = "ok", "warning", "problem", "unknown"
LEVELS = (OK, WARNING, UNKNOWN, PROBLEM)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `id` is its heading in docs/troubleshooting.md."""

    id: str
    level: str
    text: str
    remedy: str = ""
    detail: str = ""


def ok(id: str, text: str, detail: str = "") -> Finding:
    return Finding(id, OK, text, "", detail)


def warning(id: str, text: str, remedy: str, detail: str = "") -> Finding:
    """Works, but not as well as it could, or something beside Wick will not."""
    return Finding(id, WARNING, text, remedy, detail)


def problem(id: str, text: str, remedy: str, detail: str = "") -> Finding:
    """Wick does not work, or not fully, until this is mended."""
    return Finding(id, PROBLEM, text, remedy, detail)


def unknown(id: str, text: str, detail: str = "") -> Finding:
    """It could not be looked at, so nothing is said about it."""
    return Finding(id, UNKNOWN, text, "", detail)
