"""The tutorial's graph with a C operator in it, compiled whole: python compiled.py

add_constant is one node of the graph, whichever backend compiles the rest: `--backend inductor`
makes C++ of it (half a minute the first time), `--cpp-wrapper` also of the code around the kernels.
"""

import argparse
from pathlib import Path

import torch

import wick

wick.load(Path(__file__).with_name("add_constant.c"))
VALUES = torch.tensor(list(range(2, 40, 2)))


def fn(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.graph.add_constant(VALUES, x * 2) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--cpp-wrapper", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpp_wrapper:
        import torch._inductor.config as config

        config.cpp_wrapper = True
        arguments.backend = "inductor"
    x = torch.randn(1)
    opt_fn = torch.compile(fn, backend=arguments.backend, fullgraph=True)
    y = opt_fn(x)
    torch.testing.assert_close(y, (VALUES + x * 2) / 2)
    print(f"{arguments.backend}: {tuple(y.shape)}, as without torch.compile")


if __name__ == "__main__":
    main()
