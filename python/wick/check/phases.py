"""Where a child is: at the operator, at the reference or at its own work.

It is written down on a page that the child shares with whoever watches, and not told, since it changes
ten times per case: a message would wake two processes each time.
"""

from __future__ import annotations

import mmap
import os
import struct

OUTSIDE = "outside"  # at the operator, which was given what may well end it
BEYOND = "beyond"  # at the operator, which was given what the reference refuses
SOON = "soon"  # at the operator, which should be done long before anybody loses patience
NAMES = ("judge", "operator", "reference", OUTSIDE, BEYOND, SOON)
_PAGE = struct.Struct("<QQ")  # how often it has changed, and the index of its name


def make() -> int:
    """A file for the page, to be handed on."""
    fd = os.memfd_create("wick-check", 0)
    os.ftruncate(fd, _PAGE.size)
    return fd


class Phases:
    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, _PAGE.size)
        self._changes = 0

    def begin(self, name: str) -> None:
        self._changes += 1
        _PAGE.pack_into(self._page, 0, self._changes, NAMES.index(name))

    def now(self) -> tuple[int, str]:
        """How often it has changed, and what it is. An operator that writes anywhere may have written here."""
        changes, index = _PAGE.unpack_from(self._page)
        return changes, NAMES[index % len(NAMES)]
