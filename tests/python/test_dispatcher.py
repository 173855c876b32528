"""Where a direct call must not be direct: whatever watches, records or transforms calls sees every one of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from support import ADD, Made
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from wick import _calls

Maker = Callable[..., Made]


def names(graph: torch.fx.Graph) -> list[str]:
    return [str(n.target) for n in graph.nodes if n.op == "call_function"]


# ---- how it is known what is plain ----


def test_the_keys_of_tensors_on_a_gpu_are_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    foreseen: dict[int, int] = {}
    examples = _calls._examples()
    recorder = SimpleNamespace(expect=lambda keys, kind: foreseen.__setitem__(kind, keys))
    monkeypatch.setattr(_calls, "_wick", recorder)
    _calls._expect_cuda(examples)
    with FakeTensorMode():  # needs no GPU; its tensors have the keys of real ones, and Python's
        x = torch.empty(2, device="cuda")
        with torch.inference_mode():
            y = torch.empty(2, device="cuda")
    for kind, t in ((_calls._PLAIN, x), (_calls._INFERENCE, y)):
        keys = torch._C._dispatch_keys(t)
        for name in ("Python", "PythonTLSSnapshot"):
            keys = keys.remove(getattr(torch._C.DispatchKey, name))
        assert foreseen[kind] == keys.raw_repr(), (kind, keys)


# ---- tensors that are not what their memory says ----


def test_a_negated_view(add: Made, door: str) -> None:
    x = torch._neg_view(torch.tensor([1.0, 2.0]))
    assert x.is_neg()
    assert add.by(door)(x).tolist() == [0.0, -1.0]


def test_a_negated_view_written_in_place(bump: Made, door: str) -> None:
    base = torch.tensor([1.0, 2.0])
    try:
        bump.by(door)(torch._neg_view(base))
    except (
        RuntimeError
    ):  # torch's own step that resolves such views knows no operators without results
        assert base.tolist() == [1.0, 2.0]
    else:
        assert base.tolist() == [0.0, 1.0]


def test_the_imaginary_part_of_a_conjugate(add: Made, door: str) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert z.imag.is_neg()
    assert add.by(door)(z.imag).tolist() == [-1.0, 5.0]
    assert add.by(door)(z.real).tolist() == [2.0, 4.0]


def test_a_subclass_sees_the_call(add: Made, door: str) -> None:
    seen = []

    class Noticing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.zeros(2).as_subclass(Noticing)
    y = add.by(door)(x)
    assert y.tolist() == [1.0, 1.0] and type(y) is Noticing
    assert any(add.name in s for s in seen)


def test_a_wrapper_subclass_sees_the_call(add: Made, door: str) -> None:
    seen = []

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*[a.inner if isinstance(a, Wrapper) else a for a in args], **(kwargs or {}))

    assert add.by(door)(Wrapper(torch.zeros(2))).tolist() == [1.0, 1.0]
    assert any(add.name in s for s in seen)


# ---- modes ----


def test_a_function_mode_sees_the_call(add: Made, door: str) -> None:
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Watch():
        y = add.by(door)(x)
    assert y.tolist() == [1.0, 1.0] and any(add.name in s for s in seen)


def test_a_dispatch_mode_sees_the_call_once(add: Made, bump: Made, door: str) -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Watch():
        y = add.by(door)(x)
        bump.by(door)(x)
    assert y.tolist() == [1.0, 1.0] and x.tolist() == [1.0, 1.0]
    assert [sum(op.name in s for s in seen) for op in (add, bump)] == [1, 1], seen


def test_a_dispatch_mode_sees_the_call_that_needs_a_gradient(add: Made, door: str) -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2, requires_grad=True)
    with Watch():
        y = add.by(door)(x)
    assert y.requires_grad and sum(add.name in s for s in seen) == 1


def test_the_profiler_shows_the_name(add: Made, door: str) -> None:
    x = torch.zeros(2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        add.by(door)(x)
    assert any(add.name in event.key for event in profile.key_averages())


def test_the_old_profiler_shows_the_name(add: Made, door: str) -> None:
    x = torch.zeros(2)
    with torch.autograd.profiler.profile() as profile:
        add.by(door)(x)
    assert any(add.name in event.key for event in profile.key_averages())


def test_autocast_keeps_types(add: Made, door: str) -> None:
    x = torch.zeros(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert add.by(door)(x).dtype == torch.float32
        assert add.by(door)(x.bfloat16()).dtype == torch.bfloat16
    assert add.by(door)(x).tolist() == [1.0, 1.0]


def test_a_fake_tensor_goes_through(add: Made, door: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.zeros(2, 3)
        y = add.by(door)(x)
    assert (
        type(y).__name__ == "FakeTensor"
        and y.shape == (2, 3)
        and y.device.type == "cpu"
        and y.fake_mode is mode
    )


def test_a_fake_tensor_gets_the_same_errors(add: Made, door: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(RuntimeError, match=f"{add.name}: x is i64"):
        add.by(door)(torch.zeros(2, dtype=torch.int64))


def test_inference_mode(add: Made, bump: Made, door: str) -> None:
    x = torch.zeros(2)
    with torch.inference_mode():
        y = add.by(door)(x)
        assert y.is_inference() and y.tolist() == [1.0, 1.0]
        bump.by(door)(y)
        assert y.tolist() == [2.0, 2.0]
    assert not add.by(door)(x).is_inference()
    with torch.inference_mode(), torch.no_grad():
        assert add.by(door)(torch.zeros(2, requires_grad=False)).tolist() == [1.0, 1.0]


def test_a_deterministic_or_default_device_mode_changes_nothing(add: Made, door: str) -> None:
    with torch.device("meta"):
        assert add.by(door)(torch.zeros(2, device="cpu")).tolist() == [1.0, 1.0]


# ---- transforms ----


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_loops_over_the_operator(add: Made, door: str) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.vmap(lambda row: add.by(door)(row))(x), x + 1)
    assert torch.equal(
        torch.vmap(lambda row: add.by(door)(row, 2.0), in_dims=1, out_dims=1)(x), x + 2
    )


def test_functorch_grad_says_that_there_is_none(add: Made, door: str) -> None:
    with pytest.raises(RuntimeError, match=f"{add.name}: no gradient"):
        torch.func.grad(lambda x: add.by(door)(x).sum())(torch.zeros(2))


def test_functorch_grad_with_the_operator_aside(add: Made, door: str) -> None:
    def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (w * add.by(door)(x)).sum()

    assert torch.func.grad(loss)(torch.ones(2), torch.zeros(2)).tolist() == [1.0, 1.0]


# ---- recording ----


def test_make_fx_records_the_operator(add: Made, door: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x: add.by(door)(x, 2.0) * 3)(torch.zeros(2))
    assert len(names(traced.graph)) == 2 and add.name in names(traced.graph)[0]
    assert traced(torch.ones(2)).tolist() == [9.0, 9.0]


def test_symbolic_tracing_of_shapes_records_the_operator(add: Made, door: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x: add.by(door)(x), tracing_mode="fake")(torch.zeros(2, 3))
    assert len(names(traced.graph)) == 1 and add.name in names(traced.graph)[0]


@pytest.mark.filterwarnings("ignore")
def test_jit_tracing_records_the_operator(add: Made, door: str) -> None:
    traced = torch.jit.trace(lambda x: add.by(door)(x) * 2, (torch.zeros(2),))
    assert f"local::{add.name}" in str(traced.graph)
    assert traced(torch.tensor([3.0])).tolist() == [8.0]


@pytest.mark.filterwarnings("ignore")
def test_compile_with_the_whole_graph(add: Made) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(
        lambda x: add.torch(x, 2.0) * 3, backend=keep, fullgraph=True, dynamic=False
    )
    with torch.no_grad():
        assert compiled(torch.ones(2)).tolist() == [9.0, 9.0]
    assert any(add.name in n for n in names(graphs[0].graph))


@pytest.mark.filterwarnings("ignore")
def test_compile_with_the_eager_backend(add: Made) -> None:
    compiled = torch.compile(
        lambda x: add.torch(x) * 2, backend="eager", fullgraph=True, dynamic=False
    )
    assert compiled(torch.zeros(3)).tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore")
def test_compile_around_a_direct_call_gives_the_same(add: Made) -> None:
    compiled = torch.compile(lambda x: add.direct(x + 1) * 2, backend="eager", dynamic=False)
    assert compiled(torch.zeros(3)).tolist() == [4.0] * 3


def test_opcheck_of_schema_and_fake(add: Made, bump: Made) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = ("test_schema", "test_faketensor")
        torch.library.opcheck(add.torch.default, (torch.randn(3, 4),), test_utils=tests)
        torch.library.opcheck(bump.torch.default, (torch.randn(3, 4),), test_utils=tests)


# ---- the way chosen ----


def test_plain_calls_are_direct_here() -> None:
    assert _calls.mode in ("internals", "dlpack", "dispatcher")


def test_a_plain_call_does_not_pass_the_dispatcher(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = make(ADD)  # it has not looked its overload up yet
    if _calls.mode == "dispatcher":
        pytest.skip("every call passes the dispatcher in this mode")
    calls = []
    monkeypatch.setattr(_calls, "overload", lambda ns, name: calls.append(name))
    add = make(ADD)  # a new one: it has not looked its overload up yet
    function = add.direct
    assert function(torch.zeros(2)).tolist() == [1.0, 1.0] and calls == []
    with pytest.raises(TypeError):
        function(torch._neg_view(torch.zeros(2)))  # the stand-in above is no operator
    assert calls == [add.name]
