"""python_op -- torch.library.custom_op: the same operator written in Python."""

from __future__ import annotations

from typing import Any


def plusone() -> Any:
    import torch

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    return torch.library.custom_op(
        "wick_bench_py::plusone", mutates_args=(), schema="(Tensor x) -> Tensor"
    )(kernel)
