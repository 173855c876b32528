"""Run apart from the others, on a machine with a GPU, by whatever wick and torch that Python has: `make test-gpu`."""

import os
import sys

import pytest
import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))


def pytest_sessionstart(session: pytest.Session) -> None:
    if not torch.cuda.is_available():
        pytest.exit("tests/gpu needs a GPU that torch can use", returncode=2)
