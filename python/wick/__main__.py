"""python -m wick: the `wick` command of this Python, also where it is not on the PATH.

The verbs that are Python run here; all others are the command's. (The command runs those by path
instead, without importing this package and torch with it.)
"""

from __future__ import annotations

import importlib
import os
import site
import sys

PYTHON_VERBS = {
    "bench": "cli_bench",
    "check": "cli_check",
    "doctor": "cli_doctor",
    "new": "cli_new",
    "tune": "cli_tune",
}


def find_command() -> str | None:
    """The command beside this Python, or in the user's own scripts."""
    for folder in (os.path.dirname(sys.executable), os.path.join(site.getuserbase(), "bin")):
        command = os.path.join(folder, "wick")
        if os.access(command, os.X_OK):
            return command
    return None


def main(arguments: list[str]) -> int:
    verb = arguments[0] if arguments else ""
    command = find_command()
    # Its help is the command's, like that of all verbs.
    wants_help = "--help" in arguments or "-h" in arguments
    if verb in PYTHON_VERBS and not (command and wants_help):
        module = importlib.import_module(f".{PYTHON_VERBS[verb]}", __package__)
        return module.main(arguments[1:])
    if command is None:
        print(f"wick: the command is not installed beside {sys.executable}", file=sys.stderr)
        return 1
    return os.execv(command, [command, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
