"""progress -- says on stderr what is running: a bar on a terminal that has rich, else plain lines"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

_SILENCE = 5.0  # seconds between two plain lines


class Progress:
    def __init__(self, what: str) -> None:
        self.what = what
        self._said = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from rich.console import Console
                from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
                from rich.progress import Progress as Bar
                from rich.table import Column

                last = Column(no_wrap=True, overflow="ellipsis")  # the one that gives way
                columns = (
                    BarColumn(bar_width=20),
                    TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)),
                    TextColumn("{task.description}", markup=False, table_column=last),
                )
                self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
                self._task = self._bar.add_task(what, total=1.0)

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, done: float, total: float, now: str = "") -> None:
        words = f"{self.what} {now}".rstrip()
        if self._bar:
            self._bar.update(self._task, completed=done / total, description=words)
            return
        if time.monotonic() - self._said > _SILENCE:
            self._said = time.monotonic()
            print(f"{words}: {done:.0f} of {total:.0f}", file=sys.stderr, flush=True)

    def say(self, now: str) -> None:
        """Before one long step."""
        if self._bar:
            self._bar.update(self._task, description=f"{self.what} {now}")
        else:
            print(f"{self.what}: {now}", file=sys.stderr, flush=True)
