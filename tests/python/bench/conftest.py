"""A folder with an operator to be measured, and the machine that measures it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from measured import REFERENCE, SIZES, SOURCE
from support import fresh

from wick.bench.host import Host


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An operator with all the files that may lie beside it; its name is that of the .c file."""
    name = f"slope_{fresh()}"
    for ending, text in ((".c", SOURCE), (".py", REFERENCE), (".shapes.txt", SIZES)):
        (tmp_path / f"{name}{ending}").write_text(
            text.replace("OP", name).replace(f"WICK_{name}", "WICK_OP")
        )
    return tmp_path


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    before = torch.get_num_threads()
    yield Host(1)
    torch.set_num_threads(before)
