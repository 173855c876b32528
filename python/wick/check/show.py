"""The report and the progress on a terminal, or line by line where there is none."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from .report import Line
from .run import Watcher

PATIENCE, BETWEEN = 1.0, 10.0  # seconds before anything is shown, and between plain lines


def put(lines: list[Line]) -> None:
    """On stdout; with colours where rich is installed and somebody looks."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        with contextlib.suppress(ImportError):
            from rich.console import Console
            from rich.text import Text

            console = Console(highlight=False)
            for words, style in lines:
                console.print(Text(words, style=style), soft_wrap=True)
            return
    for words, _ in lines:
        print(words)


class _Plain:
    """A line now and then, on stderr."""

    def __init__(self) -> None:
        self.next = time.monotonic() + PATIENCE

    def watch(self, event: str, done: int, total: int, words: str) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + BETWEEN
            print(f"wick check: [{done}/{total}] {event} {words}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        pass


class _Rich:
    """A bar on stderr, once it takes longer than a second, whether anything was told by then or not."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        self.shown = False
        self.lock = threading.Lock()
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[faults]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.task: Any = self.bar.add_task("starting", total=None, faults="")
        self.faults = 0
        self.timer = threading.Timer(PATIENCE, self._show)
        self.timer.daemon = True
        self.timer.start()

    def _show(self) -> None:
        with self.lock:
            if not self.timer.finished.is_set():  # as it is once it was cancelled
                self.shown = True
                self.bar.start()

    def watch(self, event: str, done: int, total: int, words: str) -> None:
        self.faults += event == "fault"
        plural = "" if self.faults == 1 else "s"
        more = f"[red]{self.faults} fault{plural}[/]" if self.faults else ""
        about = f"loading {words}" if event == "loading" else words
        if event == "fault":
            about = "making a fault smaller"
        self.bar.update(
            self.task, completed=done, total=total or None, description=about[:40], faults=more
        )

    def stop(self) -> None:
        with self.lock:
            self.timer.cancel()
            if self.shown:
                self.bar.stop()


@contextlib.contextmanager
def progress() -> Iterator[Watcher]:
    shown: Any = _Plain()
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            shown = _Rich()
    try:
        yield shown.watch
    finally:
        shown.stop()
