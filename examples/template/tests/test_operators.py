"""The operators of extension_cpp against plain PyTorch: python -m pytest"""

import pytest
import torch
from extension_cpp import convrnn, convrnn_backward, convrnn_forward, my_kernel
from extension_cpp.reference import reference_convrnn, reference_my_kernel

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def inputs(B, S, N, K, device, dtype=torch.float64):
    x, kernel, hidden = torch.randn(B, S, N), torch.randn(1, 1, K) / K, torch.randn(B, N)
    return [t.to(device, dtype).requires_grad_() for t in (x, kernel, hidden)]


def test_as_the_template_calls_it(device):
    x = torch.randn(2, 10, 64, device=device)
    kernel, hidden = torch.randn(1, 1, 3, device=device), torch.randn(2, 64, device=device)
    output = convrnn_forward(x, kernel, hidden)
    assert output.shape == (2, 11, 64)
    assert torch.equal(output, torch.ops.extension_cpp.convrnn_forward(x, kernel, hidden))
    assert torch.equal(output, convrnn(x, kernel, hidden))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 10, 64, 3), (3, 5, 7, 4), (2, 0, 3, 3)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_convrnn(shape, dtype, device):
    arguments = inputs(*shape, device, dtype)
    exact = [a.detach().double().requires_grad_() for a in arguments]
    y, wanted = convrnn(*arguments), reference_convrnn(*exact)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(y.double(), wanted, **close)
    dy = torch.randn_like(y)
    y.backward(dy)
    wanted.backward(dy.double())
    for mine, right in zip(arguments, exact, strict=True):
        # The halves round y at every step, which the gradient then differs by; a kernel that nothing
        # was computed with has no gradient in PyTorch, and a gradient of zeros here.
        right = torch.zeros_like(right) if right.grad is None else right.grad
        torch.testing.assert_close(
            mine.grad.double(), right, rtol=close["rtol"], atol=close["atol"] * 10
        )


@pytest.mark.parametrize("shape", [(2, 3, 5, 3), (1, 4, 3, 7)])
def test_gradcheck(shape, device):
    assert torch.autograd.gradcheck(convrnn, inputs(*shape, device))


def test_gradients_are_the_same_every_time(device):
    arguments = [a.detach() for a in inputs(9, 6, 33, 5, device, torch.float32)]
    y = convrnn(*arguments)
    first = convrnn_backward(torch.ones_like(y), arguments[1], y)
    for _ in range(3):
        again = convrnn_backward(torch.ones_like(y), arguments[1], y)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("shape", [(1, 1, 1), (32, 256, 51), (0, 3)])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_my_kernel(shape, dtype, device):
    x = torch.randn(shape).to(device, dtype)
    for view in (x, x.transpose(0, -1), torch.zeros_like(x), torch.ones_like(x)):
        assert torch.equal(my_kernel(view), reference_my_kernel(view))


def test_compiled(device):
    """Nobody wrote a fake implementation: the signature is one."""
    compiled = torch.compile(
        torch.ops.extension_cpp.convrnn_forward, backend="aot_eager", fullgraph=True
    )
    arguments = [a.detach() for a in inputs(2, 3, 8, 3, device)]
    torch.testing.assert_close(compiled(*arguments), reference_convrnn(*arguments))


def test_what_does_not_fit_is_refused(device):
    x, kernel, hidden = (a.detach() for a in inputs(2, 3, 8, 3, device))
    with pytest.raises(RuntimeError, match=r"convrnn: hidden\.shape\[1\] is 7, but N is 8"):
        convrnn(x, kernel, hidden[:, :7])
    with pytest.raises(RuntimeError, match=r"convrnn: kernel\.shape\[0\] is 2, expected 1"):
        convrnn(x, torch.ones(2, 1, 3, dtype=x.dtype, device=device), hidden)
