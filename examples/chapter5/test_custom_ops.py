"""The chapter's tests: python test_custom_ops.py, or one of the functions alone"""

import sys
from collections.abc import Callable

import torch
from example_usage import FusedOpLayer, compare_performance, custom_ops, device, train_a_network


def test_fused_op_forward() -> None:
    x, bias = torch.randn(32, 64, device=device), torch.randn(64, device=device)
    output = custom_ops.fused_op_forward(x, bias, 2.0)
    print(f"Input shape: {x.shape}\nOutput shape: {output.shape}")
    furthest = (output - torch.relu(x * 2.0 + bias)).abs().max().item()
    print(f"Max difference vs PyTorch: {furthest:.2e}")
    assert furthest < 1e-5
    transposed = torch.randn(64, 32, device=device).t()
    torch.testing.assert_close(
        custom_ops.fused_op_forward(transposed, bias, 2.0), torch.relu(transposed * 2.0 + bias)
    )


def test_fused_op_gradients() -> None:
    x = torch.randn(8, 16, dtype=torch.float64, device=device, requires_grad=True)
    bias = torch.randn(16, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, b: custom_ops.fused_op_forward(x, b, 2.0), (x, bias))
    custom_ops.fused_op_forward(x, bias, 2.0).sum().backward()
    wanted = torch.autograd.grad(torch.relu(x * 2.0 + bias).sum(), (x, bias))
    torch.testing.assert_close([x.grad, bias.grad], list(wanted))


def test_custom_relu() -> None:
    x = torch.randn(128, 256, device=device, requires_grad=True)
    y = custom_ops.custom_relu(x)
    assert torch.equal(y, torch.relu(x))
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, (x > 0).float())
    assert custom_ops.custom_relu(torch.tensor([float("nan")], device=device)).isnan().all()


def test_reduce_sum() -> None:
    for n in (0, 1024, 2048, 10000):
        x = torch.randn(n, device=device, requires_grad=True)
        total = custom_ops.reduce_sum(x)
        torch.testing.assert_close(total, x.double().sum().float(), rtol=1e-6, atol=1e-6)
        total.backward()
        assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))


def benchmark_fused_op() -> None:
    compare_performance()


def test_nn_module() -> None:
    layer = FusedOpLayer(64, scale=2.0)
    assert list(layer.state_dict()) == ["bias"]
    losses = train_a_network()
    assert losses[-1] < losses[0]


TESTS: dict[str, Callable[[], None]] = {
    "Fused Op Forward": test_fused_op_forward,
    "Fused Op Gradients": test_fused_op_gradients,
    "Custom ReLU": test_custom_relu,
    "Reduce Sum": test_reduce_sum,
    "Performance Benchmark": benchmark_fused_op,
    "nn.Module Integration": test_nn_module,
}


def main() -> int:
    torch.manual_seed(0)
    passed = []
    for number, (name, test) in enumerate(TESTS.items(), 1):
        print(f"{'=' * 42}\nTEST {number}: {name}\n{'=' * 42}")
        try:
            test()
        except AssertionError as error:
            print(f"FAILED: {error}")
        else:
            passed.append(name)
    print(f"{'=' * 42}\nTEST SUMMARY\n{'=' * 42}")
    for name in TESTS:
        print(f"  {'PASSED' if name in passed else 'FAILED'}: {name}")
    print(f"\nTotal: {len(passed)}/{len(TESTS)} tests passed")
    return 0 if len(passed) == len(TESTS) else 1


if __name__ == "__main__":
    sys.exit(main())
