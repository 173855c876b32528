"""check_time -- how long `wick check` takes, and whether it is content with what comes with Wick.

    .venv/bin/python bench/check_time.py [--save] [--seeds N] [--device cuda]

One pointwise operator in all its types and depths as usual, the median of three times; then all operators
with several seeds.
The targets are those of two cores; on a GPU there are none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure
from measure import Row

ONE, ALL = 20.0, 300.0  # seconds, on two cores
LAST = re.compile(
    r"^(?P<verdict>.*): .* operators?, (?P<cases>[\d,]+) cases?, (?P<seconds>[\d.]+) s$"
)


def median(what: str, device: str) -> Row:
    """Of the runs that came to an end; one that did not is what is told."""
    runs = [checked(what, device, what) for _ in range(3)]
    failed = [row for row in runs if row.ours is None]
    return failed[0] if failed else sorted(runs, key=lambda row: row.ours)[1]


def checked(what: str, device: str, *words: str) -> Row:
    said = subprocess.run(
        [sys.executable, "-m", "wick", "check", "--device", device, *words],
        capture_output=True,
        text=True,
    )
    found = LAST.match((said.stdout.strip().splitlines() or [""])[-1])
    if found is None:
        return Row(what, None, "", None, None, "", False, "s", f"exit code {said.returncode}")
    seconds, most = float(found["seconds"]), ALL if not words or words[0] == "--seed" else ONE
    note = f"{found['verdict']}, {found['cases']} cases"
    if device != "cpu":
        return Row(f"{what}: {note}", seconds, "", None, None, "", None, "s")
    met = seconds <= most and said.returncode == 0
    return Row(f"{what}: {note}", seconds, "", None, None, f"<= {most:g} s", met, "s")


def main() -> int:
    parser = measure.arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="of the run over all operators (5)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    options = parser.parse_args()
    rows = [median(name, options.device) for name in ("relu", "scale_bias_relu")]
    for seed in range(1, options.seeds + 1):
        rows.append(checked(f"all, seed {seed}", options.device, "--seed", str(seed)))
    measure.print_table(f"wick check, on {options.device}", rows)
    if options.save:
        measure.save("check_time" if options.device == "cpu" else "check_time_gpu", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
