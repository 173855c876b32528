"""What the chapter does with its extension: python example_usage.py"""

import time

import torch
from torch import nn

try:
    import custom_ops  # after `pip install .`
except ImportError:
    from load_jit import custom_ops  # as it is

device = "cuda" if torch.cuda.is_available() else "cpu"


def basic_usage() -> None:
    x = torch.randn(128, 256, device=device, requires_grad=True)
    bias = torch.randn(256, device=device, requires_grad=True)
    output = custom_ops.fused_op_forward(x, bias, 2.0)  # relu(x * 2.0 + bias)
    output.sum().backward()  # what arrives for output is one number with stride 0: copied out first
    assert x.grad is not None and bias.grad is not None
    print(f"Input gradient shape: {x.grad.shape}")
    print(f"Bias gradient shape: {bias.grad.shape}")


class FusedOpLayer(nn.Module):
    """The layer of the chapter. Wick has it ready made, and faster: wick.nn.ScaleBiasReLU."""

    def __init__(self, features: int, scale: float = 1.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return custom_ops.fused_op(x, self.bias, self.scale)  # fused_op_forward by its other name


def train_a_network(steps: int = 10) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 256), FusedOpLayer(256, scale=2.0), nn.Linear(256, 10))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    x, labels = torch.randn(32, 512).to(device), torch.randint(10, (32,)).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"Loss: {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


def compare_performance(iterations: int = 20) -> None:
    """Milliseconds per call. Both are single functions here; torch makes three passes over memory."""
    x, bias = torch.randn(1024, 2048, device=device), torch.randn(2048, device=device)
    ways = {
        "fused_op, as in ops/fused_op.c": lambda: custom_ops.fused_op(x, bias, 2.0),
        "torch.relu(x * scale + bias)": lambda: torch.relu(x * 2.0 + bias),
    }
    wait = torch.cuda.synchronize if device == "cuda" else torch.cpu.synchronize
    for name, call in ways.items():
        call()
        wait()
        start = time.perf_counter()
        for _ in range(iterations):
            call()
        wait()
        print(f"{name:32} {(time.perf_counter() - start) / iterations * 1e3:.3f} ms")


if __name__ == "__main__":
    basic_usage()
    train_a_network()
    compare_performance()
