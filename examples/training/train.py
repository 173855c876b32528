"""Trains a small network with an operator written in C: python examples/training/train.py

snake.c has the operator and its gradient, this file everything else.
"""

from pathlib import Path

import torch

import wick

op = wick.load(Path(__file__).with_name("snake.c"))
device = "cuda" if torch.cuda.is_available() else "cpu"


class Snake(torch.nn.Module):
    """y = x + sin(a x)^2 / a, in C."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.linspace(0.5, 4.0, features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return op.snake(x, self.a)


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(1, 32),
        Snake(32),
        torch.nn.Linear(32, 1),
    )


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Two waves, one on the other."""
    x = torch.linspace(-4, 4, 256).unsqueeze(1)
    return x, torch.sin(3 * x) + 0.5 * torch.sin(7 * x)


def train(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int = 400
) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    model = make_model().to(device)
    losses = train(model, *(t.to(device) for t in make_data()))
    print(model)
    for step in range(0, len(losses), 100):
        print(f"step {step:3}   loss {losses[step]:.4f}")
    print(f"step {len(losses):3}   loss {losses[-1]:.4f}")
