"""Installs torch into the Python that runs this, unless it has one.

On a machine without an NVIDIA driver the CPU build is asked for: a tenth of the download. Another
version or index: TORCH="torch==2.11.0" and pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS).
"""

import importlib.util
import os
import subprocess
import sys
import urllib.request

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/torch/", timeout=5):
            return True
    except OSError:
        return False


def main() -> int:
    if importlib.util.find_spec("torch") is not None:
        return 0
    wanted = os.environ.get("TORCH") or "torch==2.13.0"
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", wanted]
    if not os.path.exists("/proc/driver/nvidia") and answers(CPU_INDEX):
        command += ["--extra-index-url", CPU_INDEX]
    print(f"installing {wanted} (once; a few hundred megabytes)", flush=True)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
