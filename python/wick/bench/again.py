"""again -- some calls of a run once more, in a process of their own

Where a process has its code and its memory makes the same call faster or slower by up to a tenth, for as
long as it lives. What seems to have become slower is therefore measured by others too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from ..check import spawn
from .rows import Row


def measure(words: Sequence[str], calls: Sequence[str], device: str) -> list[Row]:
    """The rows of these calls (work.call_words) of the run that `words` ask for, on the device of that
    name; none where the process does not come to its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.json")
        done = subprocess.run(
            spawn.command("wick.bench.again", path, device, json.dumps(calls), *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # what there is to say was said
            env=spawn.environment(),
            check=False,
        )
        if done.returncode != 0:
            return []
        with open(path, encoding="utf-8") as f:
            return [Row.from_record(json.loads(line)) for line in f]


def main(path: str, device: str, calls: str, *words: str) -> None:
    """As a process of its own."""
    import torch

    from .. import cli_bench
    from . import asked, target
    from .progress import Progress
    from .work import Work, call_words

    options = cli_bench.parser().parse_args(words)
    operators = target.find(options.operators, options.reference, options.shapes, [])
    wanted = set(json.loads(calls))
    plan = [c for c in asked.plan_calls(operators, options, "bench") if call_words(*c) in wanted]
    (on,) = asked.devices(device, options.threads or torch.get_num_threads())
    with Progress("wick bench") as progress:
        work = Work(options, progress, lambda **what: None)
        work.measure(plan, on)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row.record()) + "\n" for row in work.rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
