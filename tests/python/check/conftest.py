"""write(text, reference): an operator's files in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from judging import REFERENCE, TRIPLE


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write(text, reference) makes NAME.c and NAME.py in a folder of their own."""

    def make(text: str = TRIPLE, reference: str | None = REFERENCE, name: str = "triple") -> Path:
        path = tmp_path / f"{name}.c"
        path.write_text(text)
        if reference is not None:
            path.with_suffix(".py").write_text(reference)
        return path

    return make
