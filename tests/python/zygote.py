"""Fresh processes for the price of a fork.

Importing torch takes seconds, and a test of the cache needs dozens of processes that have loaded nothing yet. So one
process imports torch and wick and then only forks: each child is as new as an interpreter that has just imported both,
with an environment, a working directory and output files of its own.

    zygote = Zygote(folder)
    child = zygote.start("print(wick.load(args[0]).f(torch.ones(1)).item())", "f.c", CC="clang")
    done = child.wait()          # done.code, done.out, done.err
    done = zygote.run(...)       # the same at once, and fails unless the exit status is 0
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Done:
    code: int  # negative: the signal that ended it
    out: str
    err: str


class Child:
    def __init__(self, zygote: Zygote, pid: int, out: Path, err: Path) -> None:
        self.zygote, self.pid, self.out, self.err = zygote, pid, out, err
        self.done: Done | None = None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Whether it has; a child is a zombie until it is waited for."""
        with open(f"/proc/{self.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"

    def wait(self, seconds: float = 60.0) -> Done:
        if self.done is None:
            code = self.zygote.ask({"wait": self.pid, "seconds": seconds})
            if code is None:
                self.kill()
                self.zygote.ask({"wait": self.pid, "seconds": 10})
                raise AssertionError(
                    f"not done after {seconds:g} s\n{self.out.read_text()}\n{self.err.read_text()}"
                )
            self.done = Done(code, self.out.read_text(), self.err.read_text())
        return self.done


class Zygote:
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.process.stdout and self.process.stdout.readline() == "ready\n"

    def ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(
        self, code: str, *args: Any, folder: Path | None = None, **environment: str | None
    ) -> Child:
        """Runs code, which has torch, wick, os, sys, time and args. None removes a variable."""
        self.count += 1
        out, err = (self.folder / f"{self.count}.{kind}" for kind in ("out", "err"))
        out.touch()
        err.touch()
        request = {
            "code": code,
            "args": [os.fspath(a) if isinstance(a, os.PathLike) else a for a in args],
            "folder": str(folder or self.folder),
            "environment": {**dict.fromkeys(environment), **environment},
            "out": str(out),
            "err": str(err),
        }
        return Child(self, self.ask(request), out, err)

    def run(
        self, code: str, *args: Any, folder: Path | None = None, **environment: str | None
    ) -> Done:
        done = self.start(code, *args, folder=folder, **environment).wait()
        assert done.code == 0, f"exit status {done.code}\n{done.out}\n{done.err}"
        return done

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


# ---- the other side ----


def _become(request: dict[str, Any]) -> None:
    """In the child: everything that a process of its own would have."""
    import torch

    import wick

    for number, path in ((1, request["out"]), (2, request["err"])):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(fd, number)
        os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.chdir(request["folder"])
    for name, value in request["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    names = {
        "torch": torch,
        "wick": wick,
        "os": os,
        "sys": sys,
        "time": time,
        "args": request["args"],
    }
    exec(compile(request["code"], "<child>", "exec"), names)


def _start(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _become(request)
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    pause = 0.0005
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)


def main() -> None:
    import torch  # noqa: F401

    import wick  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = (
            _wait(request["wait"], request["seconds"]) if "wait" in request else _start(request)
        )
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
