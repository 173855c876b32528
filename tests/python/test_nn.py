"""wick.nn.ScaleBiasReLU as a module among torch's own."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch
from support import run_python
from torch.func import functional_call

import wick

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


class Plain(torch.nn.Module):
    """The same layer in plain PyTorch."""

    def __init__(self, features: int, scale: float = 1.0) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.scale + self.bias)


def model(layer: torch.nn.Module) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(12, 6), layer, torch.nn.Linear(6, 2))


@pytest.fixture
def layer() -> wick.nn.ScaleBiasReLU:
    """With a bias that is not zero."""
    torch.manual_seed(3)
    layer = wick.nn.ScaleBiasReLU(6, scale=0.75)
    with torch.no_grad():
        layer.bias.copy_(torch.randn(6))
    return layer


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    x = torch.randn(5, 6, dtype=next(a.parameters()).dtype)
    return torch.equal(a(x), b(x))


# ---- what it computes ----


def test_it_starts_as_a_scaled_relu() -> None:
    layer = wick.nn.ScaleBiasReLU(4, scale=2.0)
    assert layer.bias.tolist() == [0.0] * 4 and layer.bias.requires_grad
    x = torch.randn(3, 4)
    assert torch.equal(layer(x), torch.relu(2 * x))
    assert torch.equal(wick.nn.ScaleBiasReLU(4)(x), torch.relu(x))


@pytest.mark.parametrize("shape", [(6,), (0, 6), (5, 6), (2, 3, 4, 6)], ids=str)
def test_it_computes_what_torch_does(layer: wick.nn.ScaleBiasReLU, shape: tuple[int, ...]) -> None:
    plain = Plain(6, 0.75)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(shape)
    mine, theirs = (x.clone().requires_grad_() for _ in range(2))
    y, wanted = layer(mine), plain(theirs)
    assert torch.equal(y, wanted)
    dy = torch.randn(shape)
    y.backward(dy)
    wanted.backward(dy)
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(layer.bias.grad, plain.bias.grad)


def test_what_does_not_fit_is_refused(layer: wick.nn.ScaleBiasReLU) -> None:
    with pytest.raises(RuntimeError, match=r"scale_bias_relu: bias\.shape\[0\] is 6, but C is 5"):
        layer(torch.ones(2, 5))
    with pytest.raises(RuntimeError, match="scale_bias_relu: .*f32.*f64|.*f64.*f32"):
        layer(torch.ones(2, 6, dtype=torch.float64))


# ---- what it is ----


def test_its_state_is_the_bias(layer: wick.nn.ScaleBiasReLU) -> None:
    assert list(layer.state_dict()) == ["bias"]
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    other = wick.nn.ScaleBiasReLU(6, scale=0.75)
    assert not same(other, layer)
    assert str(other.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    assert same(other, layer)
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        wick.nn.ScaleBiasReLU(5).load_state_dict(layer.state_dict())


def test_a_state_dict_goes_through_a_file(layer: wick.nn.ScaleBiasReLU, tmp_path: Path) -> None:
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    with torch.device("meta"):
        other = wick.nn.ScaleBiasReLU(6, scale=0.75)
    other.load_state_dict(state, assign=True)
    assert same(other, layer)


def test_what_it_shows(layer: wick.nn.ScaleBiasReLU) -> None:
    assert repr(layer) == "ScaleBiasReLU(features=6, scale=0.75)"
    assert "(1): ScaleBiasReLU(features=6, scale=0.75)\n" in repr(model(layer))


def test_it_takes_device_and_dtype_as_torchs_modules_do() -> None:
    layer = wick.nn.ScaleBiasReLU(3, device="meta", dtype=torch.bfloat16)
    assert layer.bias.is_meta and layer.bias.dtype == torch.bfloat16
    made = torch.nn.utils.skip_init(wick.nn.ScaleBiasReLU, 3)
    made.reset_parameters()
    assert made.bias.tolist() == [0.0] * 3
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert wick.nn.ScaleBiasReLU(3).bias.dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


# ---- moves and copies ----


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_it_moves_between_types(layer: wick.nn.ScaleBiasReLU, dtype: torch.dtype) -> None:
    layer.to(dtype)
    assert layer.bias.dtype == dtype and isinstance(layer.bias, torch.nn.Parameter)
    x = torch.randn(4, 6).to(dtype)
    wanted = torch.relu(x.double() * 0.75 + layer.bias.double()).to(dtype)
    torch.testing.assert_close(layer(x), wanted)
    layer(x).sum().backward()
    assert layer.bias.grad is not None and layer.bias.grad.dtype == dtype


def test_it_moves_to_another_device(layer: wick.nn.ScaleBiasReLU) -> None:
    layer.to("meta")
    y = layer(torch.empty(4, 6, device="meta"))
    assert y.is_meta and y.shape == (4, 6)
    back = layer.to_empty(device="cpu")
    back.reset_parameters()
    assert torch.equal(back(torch.ones(2, 6)), torch.full((2, 6), 0.75))


def test_copies_are_apart(layer: wick.nn.ScaleBiasReLU) -> None:
    other = copy.deepcopy(layer)
    assert same(other, layer) and other.bias is not layer.bias
    with torch.no_grad():
        other.bias += 1
    assert not same(other, layer)


@pytest.mark.parametrize("how", ["pickle", "torch.save"])
def test_pickles(layer: wick.nn.ScaleBiasReLU, how: str, tmp_path: Path) -> None:
    whole = model(layer)
    if how == "pickle":
        other = pickle.loads(pickle.dumps(whole))
    else:
        file = io.BytesIO()
        torch.save(whole, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    x = torch.randn(3, 12)
    assert torch.equal(other(x), whole(x))


def test_a_pickle_is_read_where_wick_was_not_imported(
    layer: wick.nn.ScaleBiasReLU, tmp_path: Path
) -> None:
    (tmp_path / "layer.pkl").write_bytes(pickle.dumps(layer))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    assert (
        run_python(code, str(tmp_path / "layer.pkl")) == "ScaleBiasReLU(features=6, scale=0.75)\n"
    )


# ---- in a model ----


def train(net: torch.nn.Module, x: torch.Tensor, target: torch.Tensor) -> list[float]:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_goes_as_with_torch() -> None:
    torch.manual_seed(5)
    mine = model(wick.nn.ScaleBiasReLU(6, scale=1.5))
    theirs = model(Plain(6, scale=1.5))
    theirs.load_state_dict(mine.state_dict())
    x, target = torch.randn(64, 12), torch.randn(64, 2)
    losses, wanted = train(mine, x, target), train(theirs, x, target)
    assert losses[-1] < 0.8 * losses[0]
    torch.testing.assert_close(losses, wanted, rtol=1e-4, atol=0)
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_frozen_bias_stays(layer: wick.nn.ScaleBiasReLU) -> None:
    layer.requires_grad_(False)
    x = torch.randn(3, 6, requires_grad=True)
    layer(x).sum().backward()
    assert layer.bias.grad is None and x.grad is not None


def test_parameters_from_outside(layer: wick.nn.ScaleBiasReLU) -> None:
    x, bias = torch.randn(3, 6), torch.randn(6)
    y = functional_call(layer, {"bias": bias}, (x,))
    assert torch.equal(y, torch.relu(x * 0.75 + bias))


def test_hooks_and_modes(layer: wick.nn.ScaleBiasReLU) -> None:
    seen = []
    layer.register_forward_hook(lambda module, args, y: seen.append(y.shape))
    layer.eval()
    with torch.inference_mode():
        layer(torch.ones(2, 6))
    assert seen == [(2, 6)] and not layer.training


def test_compiled_it_is_part_of_one_graph(layer: wick.nn.ScaleBiasReLU) -> None:
    whole = model(layer)
    x = torch.randn(4, 12)
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    compiled = torch.compile(whole, backend=backend, fullgraph=True)
    assert torch.equal(compiled(x), whole(x))
    assert len(graphs) == 1
    assert sum(target.startswith("wick.scale_bias_relu") for target in graphs[0]) == 1


def test_compiled_it_computes_the_same(layer: wick.nn.ScaleBiasReLU) -> None:
    whole = model(layer)
    compiled = torch.compile(whole, backend="aot_eager", fullgraph=True)
    for rows in (4, 7):
        x = torch.randn(rows, 12)
        found = []
        for net in (whole, compiled):
            net.zero_grad()
            y = net(x)
            y.square().sum().backward()
            found.append([y, *(p.grad.clone() for p in whole.parameters())])
        torch.testing.assert_close(*found)
