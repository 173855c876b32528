"""Builders that are killed, and what the next caller finds. tests/python/test_survival.py does a few trials, tools/torture
hundreds:

    python tests/python/killing.py TRIALS [SEED]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from cached import CALL, Room, looks_whole, one_type
from zygote import Zygote


def measure_build(room: Room) -> float:
    """Seconds from the start of a process to the end of a build."""
    began = time.monotonic()
    assert room.call(one_type(room.folder, "measured", 1)) == [1.0]
    return time.monotonic() - began


def trial(room: Room, number: int, delay: float, builders: int = 1) -> int:
    """Kills builders after a while; the next caller must find a cache that works. How many were still at work."""
    path = one_type(room.folder, f"op{number}", number)
    children = [room.start(CALL, path) for _ in range(builders)]
    time.sleep(delay)
    at_work = 0
    for child in children:
        at_work += not child.ended()
        child.kill()
    for child in children:
        done = child.wait(10)
        assert done.code in (0, -9), f"trial {number}: {done}"
    began = time.monotonic()
    done = room.start(CALL, path).wait(30)
    assert done.code == 0 and done.out.split() == [str(float(number))], f"trial {number}: {done}"
    assert time.monotonic() - began < 20, f"trial {number}: the next caller waited"
    sealed = room.entries(".so") + room.entries(".note")
    broken = [entry for entry in sealed if not looks_whole(entry)]
    assert not broken, f"trial {number}: {broken}"
    runs = room.compiler.runs
    assert room.call(path) == [float(number)], f"trial {number}: not found again"
    assert room.compiler.runs == runs, f"trial {number}: the entry was not kept"
    return at_work


def trials(room: Room, n: int, seed: int, say: bool = False) -> int:
    """How many builders were killed while they were at work."""
    choose, longest = random.Random(seed), measure_build(room) * 1.1
    killed = 0
    for number in range(n):
        delay = choose.uniform(0, longest)
        killed += trial(room, number, delay, builders=choose.choice((1, 1, 1, 3))) > 0
        if say and (number + 1) % 20 == 0:
            print(f"{number + 1} trials, {killed} of them killed a builder at work", flush=True)
    return killed


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"{n} trials, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="wick-torture-", ignore_cleanup_errors=True) as folder:
        zygote = Zygote(Path(folder))
        room = Room(Path(folder), zygote)
        killed = trials(room, n, seed, say=True)
        zygote.close()
    print(f"{n} trials passed, {killed} of them killed a builder at work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
