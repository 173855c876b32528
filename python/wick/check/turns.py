"""Several processes on one GPU: whoever measures its free memory asks the others to stand still.

Everybody works in the room; who wants it alone first closes the door, then waits until the others have
left. Both are locks on files, which the system takes back from a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator

PATIENCE = 15.0  # seconds to wait for others to leave: one that hangs does not


def _open(name: str) -> int:
    path = os.path.join(tempfile.gettempdir(), f"wick-check-{os.getuid()}-{name}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class Turns:
    """A process's place; not for threads. tick: called now and then while it waits."""

    def __init__(self) -> None:
        self.door, self.room = _open("door"), _open("room")
        self.tick: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        with self._door():
            fcntl.flock(self.room, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Inside of together(). Whether all others have left in time."""
        fcntl.flock(self.room, fcntl.LOCK_UN)  # two who wait for each other would wait for ever
        with self._door():
            try:
                yield self._take(self.room, PATIENCE)
            finally:
                fcntl.flock(self.room, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def _door(self) -> Iterator[None]:
        self._take(self.door, math.inf)
        try:
            yield
        finally:
            fcntl.flock(self.door, fcntl.LOCK_UN)

    def _take(self, fd: int, patience: float) -> bool:
        start = told = time.monotonic()
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(0.005)
            now = time.monotonic()
            if now > start + patience:
                return False
            if now > told + 1:
                self.tick()
                told = now


@functools.cache
def mine() -> Turns:
    """This process's; not to be asked for before a fork."""
    return Turns()
