"""Installs torch into the Python that runs this, unless it has one.

Another version: TORCH="torch==2.11.0"; another source, such as an index of CPU builds: pip's own
settings (PIP_INDEX_URL, PIP_FIND_LINKS).
"""

import importlib.util
import os
import subprocess
import sys


def main() -> int:
    if importlib.util.find_spec("torch") is not None:
        return 0
    wanted = os.environ.get("TORCH") or "torch==2.13.0"
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", wanted]
    print(f"installing {wanted} (once; a few hundred megabytes)", flush=True)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
