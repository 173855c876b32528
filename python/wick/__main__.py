"""python -m wick: what the `wick` command does in Python."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Hands over to the command that was installed beside this Python."""
    command = os.path.join(os.path.dirname(sys.executable), "wick")
    if not os.path.exists(command):
        print(f"wick: the command is not installed beside {sys.executable}", file=sys.stderr)
        return 1
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
