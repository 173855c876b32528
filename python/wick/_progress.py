"""Says that a build is going on, once it takes longer than a second; one line when it is done."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

_PATIENCE = 1.0  # seconds before anything is shown
_asked = threading.local()  # .patience: another, while a load of this thread asks for it
_lock = threading.Lock()
_running: dict[int, _Build] = {}


@contextlib.contextmanager
def patience(seconds: float | None) -> Iterator[None]:
    """Another patience for the builds inside; None leaves it as it is."""
    before = getattr(_asked, "patience", _PATIENCE)
    _asked.patience = before if seconds is None else seconds
    try:
        yield
    finally:
        _asked.patience = before


class _Build:
    """One compiler run, shown by a spinner on a terminal and by plain lines elsewhere."""

    def __init__(self, file: str, types: str) -> None:
        self.what = os.path.basename(file) + (f" ({types})" if types else "")
        self.start = time.monotonic()
        self.shown = False
        self.spinner = None
        self.lock = threading.Lock()
        self.done = False
        self.timer = threading.Timer(getattr(_asked, "patience", _PATIENCE), self.show)
        self.timer.daemon = True
        self.timer.start()

    def show(self) -> None:
        with self.lock:
            if not self.done:
                self._show()

    def _show(self) -> None:
        self.shown = True
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.status import Status

                self.spinner = Status(f"building {self.what}", console=Console(stderr=True))
                self.spinner.start()
                return
            except ImportError:
                pass
        print(f"wick: building {self.what} ...", file=sys.stderr, flush=True)

    def finish(self, outcome: str) -> None:
        self.timer.cancel()
        with self.lock:  # a show that has begun is over, and none will begin
            self.done = True
        if self.spinner is not None:
            self.spinner.stop()
        if self.shown:
            word = "built" if outcome == "ok" else "could not build"
            seconds = time.monotonic() - self.start
            print(f"wick: {word} {self.what} in {seconds:.1f} s", file=sys.stderr, flush=True)


def tell(event: str, file: str, detail: str) -> None:
    """What src/load reports: started (types), waiting (process number), finished (ok or failed)."""
    thread = threading.get_ident()
    if event == "waiting":
        who = f"process {detail}" if detail != "0" else "another process"
        print(
            f"wick: waiting for {who}, which is building {os.path.basename(file)}",
            file=sys.stderr,
            flush=True,
        )
        return
    with _lock:
        build = _running.pop(thread, None)
        if event == "started":
            _running[thread] = _Build(file, detail)
    if event == "finished" and build is not None:
        build.finish(detail)
