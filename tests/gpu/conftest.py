"""Run apart from the others, on a machine with a GPU, by whatever wick and torch that Python has: `make test-gpu`."""

import os
import sys

import pytest
import torch

PYTHON = os.path.join(os.path.dirname(__file__), "..", "python")
sys.path[:0] = [PYTHON, os.path.join(PYTHON, "check")]  # support.py and the like, gallery.py


def pytest_sessionstart(session: pytest.Session) -> None:
    if not torch.cuda.is_available():
        pytest.exit("tests/gpu needs a GPU that torch can use", returncode=2)
