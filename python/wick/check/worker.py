"""The process that runs operators, so that one that crashes or hangs takes nobody else down.

    serve()     the zygote: imports torch once, forks a child, passes requests to it and answers back;
                forks another when that one has died
    Child       loads the target and judges cases, one request after another

Requests and answers are lines of JSON:

    {"do": "describe", ...}  ->  {"done": {...}}
    {"do": "judge", ...}     ->  {"done": {...}}, or {"crash": "..."} and then {"died": -11}
    {"do": "renew"}          ->  {"done": {}}      the next request goes to a new child

Where the child is meanwhile stands on a page (phases.py).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import traceback
import warnings
from typing import Any

from .phases import Phases

GPUS = ("/dev/nvidiactl", "/dev/dxg")

# ---- the zygote ----


class Zygote:
    def __init__(self, requests: int, answers: int, phases: Phases) -> None:
        self.requests = os.fdopen(requests, "r", encoding="utf-8")
        self.answers, self.phases = answers, phases
        self.pid = 0
        self.to_child = self.from_child = -1

    def say(self, what: dict[str, Any]) -> None:
        os.write(self.answers, (json.dumps(what) + "\n").encode())

    def fork(self) -> None:
        child_in, self.to_child = os.pipe()
        self.from_child, child_out = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(child_in)
            os.close(child_out)
            return
        os.close(self.to_child)
        os.close(self.from_child)
        status = 1
        try:
            Child(child_in, child_out, self.phases).serve()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def dismiss(self) -> None:
        """The child is to end; it has nothing more to say."""
        if self.pid:
            os.close(self.to_child)
            os.close(self.from_child)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def relay(self) -> None:
        """Passes on what the child says, until it is done or dead."""
        pending = b""
        while True:
            select.select([self.from_child], [], [])
            piece = os.read(self.from_child, 1 << 16)
            if not piece:
                break
            pending += piece
            *lines, pending = pending.split(b"\n")
            for line in lines:
                os.write(self.answers, line + b"\n")
                if line.startswith(b'{"done"'):
                    return
        _, status = os.waitpid(self.pid, 0)
        os.close(self.to_child)
        os.close(self.from_child)
        self.pid = 0
        self.say({"died": os.waitstatus_to_exitcode(status)})

    def serve(self) -> None:
        self.say({"ready": os.getpid()})
        for line in self.requests:
            if json.loads(line)["do"] == "renew":
                self.dismiss()
                self.say({"done": {}})
                continue
            if not self.pid:
                self.fork()
            self.say({"started": self.pid})
            with contextlib.suppress(BrokenPipeError):  # it has died: relay tells
                os.write(self.to_child, line.encode())
            self.relay()
        self.dismiss()


# ---- the child ----


class Child:
    def __init__(self, requests: int, answers: int, phases: Phases) -> None:
        from .. import _wick

        self.requests = os.fdopen(requests, "r", encoding="utf-8")
        self.answers, self.phase = answers, phases.begin
        self.loaded: Any = None
        if "WICK_CHECK_LOUD" not in os.environ:  # nothing that an operator or torch prints is ours
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os.close(quiet)
        warnings.simplefilter("ignore")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _wick.report_crashes(answers)

    def say(self, what: dict[str, Any]) -> None:
        os.write(self.answers, (json.dumps(what) + "\n").encode())

    def serve(self) -> None:
        for line in self.requests:
            request = json.loads(line)
            self.phase("judge")
            with self.turn(request["target"]["device"]):
                done = self.answer(request)
            self.say({"done": done})

    def turn(self, device: str) -> contextlib.AbstractContextManager[None]:
        from . import turns

        if device == "cpu":
            return contextlib.nullcontext()
        turns.mine().tick = lambda: self.phase("judge")  # waiting is not hanging
        return turns.mine().together()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        from .device import DeviceLost
        from .loaded import Loaded, NotLoaded
        from .operator import NoSizes
        from .reference import ReferenceError, is_for_memory

        try:
            if self.loaded is None:
                if request["target"]["device"] == "cpu":  # CUDA maps far more than it uses
                    _limit_memory()
                self.loaded = Loaded(request["target"], self.phase)
            if request["do"] == "describe":
                return self.loaded.describe(request)
            return self.loaded.judge(request)
        except DeviceLost as error:
            self.say({"crash": str(error)})
            os._exit(1)
        except (NotLoaded, NoSizes) as error:
            return {"error": str(error)}
        except ReferenceError as error:
            return {"broken": str(error)}
        except Exception as error:
            if is_for_memory(error):
                words = f": {error}" if isinstance(error, MemoryError) else ""
                return {"skipped": f"out of memory{words}"}
            if "CUDA error" in str(error) or "CUDA_ERROR_" in str(error):  # torch's words, and ours
                # Of a kernel before: nothing works any more.
                self.say({"crash": str(error).splitlines()[0]})
                os._exit(1)
            return {"failed": traceback.format_exc()}


def _limit_memory() -> None:
    """A call that asks for more than there is fails; it does not take the machine with it."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
        most = free * 1024 * 7 // 10
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


def _imports_start_cuda() -> bool:
    """Some of torch's modules ask whether there is a GPU. NVML can tell (ASK_DRIVER), where it works; CUDA would
    begin, and whoever is forked after that cannot use it."""
    import torch

    by_nvml = getattr(torch.cuda, "_device_count_nvml", lambda: -1)
    return any(map(os.path.exists, GPUS)) and by_nvml() < 0


def main(requests: int, answers: int, page: int) -> None:
    """As a process of its own. What children need is imported before the first of them is forked."""
    from . import loaded, noise  # noqa: F401

    if not _imports_start_cuda():
        noise.warm_up()
    gc.freeze()  # modules are not looked at again by children's collections
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        Zygote(requests, answers, Phases(page)).serve()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
