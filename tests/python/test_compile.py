"""torch.compile, torch.export and their kin: fakes with symbolic sizes, one graph over changing shapes, every door.

What a call returns under a fake mode, and what it says when it refuses, is compared with the real call's.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import Made, run_python, spell
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import wick

Maker = Callable[..., Made]

pytestmark = pytest.mark.filterwarnings("ignore")

# Every rule of the signature language that sizes can follow. Each operator writes its sizes into its results, so that a
# wrong dim is a wrong result.
NOTHING = "{ (void)ctx; %s return WICK_OK; }\n"


def op(name: str, signature: str, parameters: str, body: str) -> str:
    return (
        f'WICK_OP({name}, "{signature}");\n'
        f"WICK_IMPL wick_status {name}_cpu(wick_ctx *ctx, {parameters})\n" + NOTHING % body
    )


SIZES = (
    op(
        "OP",
        "x: T[B, S, N], h: T[B, 1, N] -> y: T[B, S+1, N] where T: f32 f64",
        "const T *x, const T *h, T *y, int64_t B, int64_t S, int64_t N",
        "for (int64_t b = 0; b < B; b++) for (int64_t s = 0; s <= S; s++) for (int64_t n = 0; n < N; n++)"
        " y[(b * (S + 1) + s) * N + n] = s ? x[(b * S + s - 1) * N + n] : h[b * N + n];",
    )
    + op(
        "OP_backward",
        "dy: T[B, S+1, N] -> dx: T[B, S, N], dh: T[B, 1, N]",
        "const T *dy, T *dx, T *dh, int64_t B, int64_t S, int64_t N",
        "for (int64_t b = 0; b < B; b++) for (int64_t s = 0; s <= S; s++) for (int64_t n = 0; n < N; n++) {"
        " T g = dy[(b * (S + 1) + s) * N + n]; if (s) dx[(b * S + s - 1) * N + n] = g; else dh[b * N + n] = g; }",
    )
    + op(
        "OP_gates",
        "w: T[4*H, H+I], x: T[*N, I] -> h: T[*N, H], g: A[H*4]",
        "const T *w, const T *x, T *h, A *g, int64_t H, int64_t I, int64_t N",
        "for (int64_t i = 0; i < N * H; i++) h[i] = (T)(H * 1000 + I) + x[0];"
        " for (int64_t i = 0; i < H * 4; i++) g[i] = (A)w[i * (H + I)];",
    )
    + op(
        "OP_solved",
        "a: T[2*N-1], b: T[N*M] -> y: T[N+M, M-1]",
        "const T *a, const T *b, T *y, int64_t N, int64_t M",
        "for (int64_t i = 0; i < (N + M) * (M - 1); i++) y[i] = a[0] + b[0] + (T)(N * 100 + M);",
    )
    + op(
        "OP_repeat",
        "x: T[N], k: int, scale: float = 1.0 -> y: T[N, k], z: T[2*k]",
        "const T *x, int64_t k, double scale, T *y, T *z, int64_t N",
        "for (int64_t i = 0; i < N * k; i++) y[i] = x[i / k] * (T)scale;"
        " for (int64_t i = 0; i < 2 * k; i++) z[i] = (T)i;",
    )
    + op(
        "OP_like",
        "x: T[], s: shape[*N, C] -> y: T[*N, C], n: T[C]",
        "const T *x, T *y, T *n, int64_t N, int64_t C",
        "for (int64_t i = 0; i < N * C; i++) y[i] = x[0]; for (int64_t i = 0; i < C; i++) n[i] = (T)N;",
    )
    + op(
        "OP_maybe",
        "x: T[N, C], bias?: T[C], mode: 'add'|'sub' = 'add' -> y: T[N, C], mask?: u8[N, C]",
        "const T *x, const T *bias, int mode, T *y, uint8_t *mask, int64_t N, int64_t C",
        "for (int64_t i = 0; i < N * C; i++) { T b = bias ? bias[i % C] : 0;"
        " y[i] = mode == WICK_mode_add ? x[i] + b : x[i] - b; if (mask) mask[i] = y[i] > 0; }",
    )
    + op(
        "OP_into",
        "x: T[*N], y!: T[*N], by: float = 1.0 -> before: T[*N]",
        "const T *x, T *y, double by, T *before, int64_t N",
        "for (int64_t i = 0; i < N; i++) { before[i] = y[i]; y[i] += x[i] * (T)by; }",
    )
    + op(
        "OP_bump",
        "x!: T[*N], by: float = 1.0 -> ()",
        "T *x, double by, int64_t N",
        "for (int64_t i = 0; i < N; i++) x[i] += (T)by;",
    )
    + op(
        "OP_steps",
        "n: int, k: int = 2 -> y: f32[n, k]",
        "int64_t n, int64_t k, float *y",
        "for (int64_t i = 0; i < n * k; i++) y[i] = (float)i;",
    )
    + op(
        "OP_count",
        "x: T[N] -> n: int",
        "const T *x, int64_t *n, int64_t N",
        "(void)x; *n = N;",
    )
)


@pytest.fixture(scope="module")
def made(make: Maker) -> Made:
    return make(SIZES)


@pytest.fixture(autouse=True)
def forget_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Family:
    """The operators of SIZES by one door."""

    def __init__(self, made: Made, door: str) -> None:
        self._home = {
            "direct": made.loaded,
            "wick": wick.ops.local,
            "torch": torch.ops.local,
        }[door]
        self._stem = made.name

    def __getitem__(self, suffix: str) -> Any:
        return getattr(self._home, self._stem + suffix)


@pytest.fixture
def ops(made: Made, door: str) -> Family:
    return Family(made, door)


def counter(backend: str = "aot_eager") -> Any:
    from torch._dynamo.testing import CompileCounterWithBackend

    return CompileCounterWithBackend(backend)


def randn(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, requires_grad=grad)


# A function of the operators, and its arguments for several sizes n.
CASES: dict[str, tuple[Callable[[Family], Any], Callable[[int], tuple[Any, ...]]]] = {
    "plus one": (
        lambda f: lambda x, h: f[""](x, h) * 2,
        lambda n: (randn(n, n + 3, 5), randn(n, 1, 5)),
    ),
    "solved": (
        lambda f: lambda w, x: f["_gates"](w, x),
        lambda n: (randn(4 * n, n + 7), randn(n + 2, 3, 7)),
    ),
    "solved from products": (
        lambda f: lambda a, b: f["_solved"](a, b),
        lambda n: (randn(2 * n - 1), randn(n * 6)),
    ),
    "an int": (
        lambda f: lambda x: f["_repeat"](x, x.shape[0] + 1, scale=2.0),
        lambda n: (randn(n),),
    ),
    "an int that changes": (lambda f: lambda x, k: f["_repeat"](x, k), lambda n: (randn(3), n)),
    "no tensor": (
        lambda f: lambda x: f["_steps"](x.shape[0], 3) + x[:, None],
        lambda n: (randn(n),),
    ),
    "a shape": (
        lambda f: lambda x: f["_like"](x.sum(), x.shape),
        lambda n: (randn(n, 3, n + 1),),
    ),
    "optional": (
        lambda f: lambda x, b: (*f["_maybe"](x, b, "sub"), f["_maybe"](x, want_mask=False)[0]),
        lambda n: (randn(n, n + 1), randn(n + 1)),
    ),
    "in place": (
        lambda f: lambda x, y: (z := y * 2, f["_into"](x, z, 3.0), z)[1:],
        lambda n: (randn(n, 3), randn(n, 3)),
    ),
    "in place without result": (
        lambda f: lambda x: (y := x + 1, f["_bump"](y), y * 2)[2],
        lambda n: (randn(n),),
    ),
    "an argument in place": (
        lambda f: lambda x: (f["_bump"](x), x * 2)[1],
        lambda n: (randn(n),),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_graph_over_changing_sizes(ops: Family, case: str) -> None:
    build, arguments = CASES[case]
    function, compiles = build(ops), counter()
    compiled = torch.compile(function, backend=compiles, fullgraph=True, dynamic=True)
    for n in (4, 5, 9):
        args = arguments(n)
        again = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
        torch.testing.assert_close(compiled(*args), function(*again), rtol=0, atol=0)
        torch.testing.assert_close(args, again, rtol=0, atol=0)
    assert compiles.frame_count == 1


def test_dynamic_by_itself_after_the_first_change(ops: Family) -> None:
    compiles = counter()
    compiled = torch.compile(lambda x, h: ops[""](x, h), backend=compiles, fullgraph=True)
    for n in (3, 4, 5, 6, 7):
        assert compiled(randn(2, n, 3), randn(2, 1, 3)).shape == (2, n + 1, 3)
    assert compiles.frame_count == 2


def test_marked_dynamic(ops: Family) -> None:
    compiles = counter()
    compiled = torch.compile(lambda x, h: ops[""](x, h), backend=compiles, fullgraph=True)
    for n in (3, 4, 5):
        x = randn(2, n, 3)
        torch._dynamo.mark_dynamic(x, 1)  # an error if the operator made it a constant
        assert compiled(x, randn(2, 1, 3)).shape == (2, n + 1, 3)
    assert compiles.frame_count == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_through_a_compiled_graph(ops: Family, backend: str) -> None:
    compiles = counter(backend)
    compiled = torch.compile(
        lambda x, h: (ops[""](x * 3, h) ** 2).sum(), backend=compiles, fullgraph=True, dynamic=True
    )
    for n in (4, 6):
        x, h = randn(2, n, 5, grad=True), randn(2, 1, 5, grad=True)
        compiled(x, h).backward()
        torch.testing.assert_close(x.grad, 18 * x.detach())
        torch.testing.assert_close(h.grad, 2 * h.detach())
    assert compiles.frame_count == 1


def test_a_shape_in_a_backward_stays_symbolic() -> None:
    """reduce_sum_backward takes sizes, not a tensor: they must not become constants of the graph."""
    compiles = counter()
    compiled = torch.compile(
        lambda x: wick.ops.reduce_sum(x * x), backend=compiles, fullgraph=True, dynamic=True
    )
    for n in (3, 5, 7):
        x = randn(n, n + 1, grad=True)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())
    assert compiles.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_every_door_inside_one_graph(made: Made, backend: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        a, _ = getattr(made.loaded, f"{made.name}_repeat")(x, k=2)
        b, _ = getattr(wick.ops.local, f"{made.name}_repeat")(x, 2, 3.0)
        c, _ = getattr(torch.ops.local, f"{made.name}_repeat")(x, 2)
        return wick.ops.relu(a + b + c) + torch.ops.wick.mul(a, b)

    x = randn(5)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), function(x))


def test_the_graph_holds_torch_ops(made: Made, door: str) -> None:
    graphs: list[torch.fx.GraphModule] = []
    compiled = torch.compile(
        lambda x, h: made.by(door)(x, h),
        backend=lambda graph, _: graphs.append(graph) or graph.forward,
        fullgraph=True,
    )
    compiled(randn(2, 3, 4), randn(2, 1, 4))
    targets = [str(n.target) for n in graphs[0].graph.nodes if n.op == "call_function"]
    assert targets == [f"local.{made.name}"]


def test_out_in_a_compiled_graph() -> None:
    x, out = randn(5), torch.zeros(5)
    compiled = torch.compile(
        lambda x, out: wick.ops.relu(x, out=out) + 1, backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(x, out), x.relu() + 1)
    torch.testing.assert_close(out, x.relu())
    with pytest.raises(Exception, match="out has"):
        compiled(x, torch.zeros(4))
    with pytest.raises(Exception, match="requires grad, so out= cannot be used"):
        compiled(x.requires_grad_(), out)


@pytest.mark.filterwarnings("ignore")
def test_a_tensor_in_a_numbers_place_breaks_the_graph() -> None:
    """As in a plain call: its number is read, but not if a gradient would be lost."""
    x, bias = torch.randn(3, 4), torch.randn(4)

    def model(scale: torch.Tensor) -> torch.Tensor:
        return wick.ops.scale_bias_relu(x, bias, scale=scale * 2) + 1

    compiled = torch.compile(model, backend="aot_eager")
    for scale in (1.0, 3.0):
        torch.testing.assert_close(compiled(torch.tensor(scale)), model(torch.tensor(scale)))
    with pytest.raises(RuntimeError, match="scale_bias_relu: scale is a tensor that requires grad"):
        compiled(torch.tensor(1.0, requires_grad=True))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="scale_bias_relu: scale is a tensor"):
        torch.compile(model, backend="aot_eager", fullgraph=True)(torch.tensor(1.0))


def test_a_plain_number_breaks_a_full_graph_in_words(ops: Family, made: Made) -> None:
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=f"{made.name}_count.*non-Tensor output"
    ):
        torch.compile(lambda x: ops["_count"](x) + 1, backend="eager", fullgraph=True)(randn(3))
    broken = torch.compile(lambda x: (x * 2).sum() * ops["_count"](x), backend="eager")
    assert broken(torch.ones(3)).item() == 18
    with pytest.raises(RuntimeError, match=f"{made.name}_count: returns a plain number \\(n\\)"):
        make_fx(lambda x: x * ops["_count"](x), tracing_mode="fake")(randn(3))


# ---- the same as a real call ----

REFUSED: dict[str, Callable[[Family], Any]] = {
    "rank": lambda f: f[""](randn(3), randn(1)),
    "constant": lambda f: f[""](randn(2, 3, 4), randn(2, 2, 4)),
    "dim": lambda f: f[""](randn(2, 3, 4), randn(2, 1, 5)),
    "not solvable": lambda f: f["_gates"](randn(9, 9), randn(3, 4)),
    "solved otherwise": lambda f: f["_gates"](randn(8, 9), randn(3, 4)),
    "leading": lambda f: f["_into"](randn(2, 3), randn(3, 2)),
    "leading rank": lambda f: f["_into"](randn(2, 3), randn(6)),
    "type": lambda f: f[""](randn(2, 3, 4).half(), randn(2, 1, 4).half()),
    "types": lambda f: f[""](randn(2, 3, 4), randn(2, 1, 4).double()),
    "complex": lambda f: f["_bump"](torch.zeros(3, dtype=torch.complex64)),
    "strange": lambda f: f["_bump"](torch.zeros(3, dtype=torch.uint32)),
    "negative": lambda f: f["_repeat"](randn(3), -1),
    "negative result": lambda f: f["_solved"](randn(1), randn(0)),
    "choice": lambda f: f["_maybe"](randn(2, 3), None, "mul"),
    "optional": lambda f: f["_maybe"](randn(2, 3), randn(4)),
    "shape rank": lambda f: f["_like"](torch.zeros(()), []),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("sizes", ["numbers", "symbols"])
def test_a_fake_refuses_in_the_words_of_a_call(made: Made, case: str, sizes: str) -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    family = Family(made, "torch")
    with pytest.raises(RuntimeError) as real:
        REFUSED[case](family)
    said = str(real.value)

    class Faking(Family):
        def __getitem__(self, suffix: str) -> Any:
            shape_env = ShapeEnv() if sizes == "symbols" else None
            mode = FakeTensorMode(shape_env=shape_env)

            def call(*args: Any) -> Any:
                fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
                with mode:
                    return family[suffix](*fakes)

            return call

    with pytest.raises(RuntimeError) as fake:
        REFUSED[case](Faking(made, "torch"))
    assert str(fake.value) == said


def test_a_fake_sees_devices(made: Made) -> None:
    with FakeTensorMode():
        a, b = torch.empty(2, device="cuda"), torch.empty(2)
        x = torch.empty(3, 2, device="cuda")
        assert torch.ops.wick.mul(a, a).device == torch.device("cuda:0")
        with pytest.raises(RuntimeError, match="^mul: b is on cpu, but a is on cuda:0$"):
            torch.ops.wick.mul(a, b)
        number = torch.empty(())  # may stay on the CPU
        assert torch.ops.wick.scale_bias_relu_learned(x, a, number).device == x.device
        with pytest.raises(RuntimeError, match="^scale_bias_relu_learned: bias is on cpu, but x"):
            torch.ops.wick.scale_bias_relu_learned(x, b, number)


@pytest.mark.parametrize(
    "shape",
    [(), (3,), (0,), (3, 0), (0, 3), (1, 1), (2, 3, 4)],
    ids=lambda s: "x".join(map(str, s)),
)
@pytest.mark.parametrize("view", ["whole", "transposed", "expanded"])
def test_a_fake_has_the_strides_of_a_result(shape: tuple[int, ...], view: str) -> None:
    x = torch.randn(shape)
    x = {
        "whole": x,
        "transposed": x.T if x.dim() < 3 else x.mT,
        "expanded": x[None].expand(2, *shape),
    }[view]
    real = wick.ops.relu(x)
    mode = FakeTensorMode()
    with mode:
        fake = wick.ops.relu(mode.from_tensor(x))
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    assert (fake.storage_offset(), fake.is_contiguous()) == (0, True)


ARGUMENTS = {
    "addone": lambda r: (r(2, 3),),
    "relu": lambda r: (r(2, 3),),
    "mul": lambda r: (r(2, 3), r(2, 3)),
    "muladd": lambda r: (r(2, 3), r(2, 3), 0.5),
    "scale_bias_relu": lambda r: (r(2, 3, 4), r(4), 0.7),
    "scale_bias_relu_learned": lambda r: (r(2, 3, 4), r(4), r()),
    "reduce_sum": lambda r: (r(2, 3),),
    "reduce_sum_dim": lambda r: (r(2, 3, 4),),
}


def test_every_shipped_gradient_is_checked_here() -> None:
    names = {name for ns, name, _ in wick.operators() if ns == "wick"}
    assert set(ARGUMENTS) == {n for n in names if f"{n}_backward" in names}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck(name: str, grad: bool, transposed: bool) -> None:
    def tensor(*shape: int) -> torch.Tensor:
        x = torch.randn(shape[::-1]).T if transposed and len(shape) == 2 else torch.randn(shape)
        return x.detach().requires_grad_(grad)

    torch.library.opcheck(getattr(torch.ops.wick, name).default, ARGUMENTS[name](tensor))


BACKWARDS = {
    "relu_backward": lambda r: (r(2, 3), r(2, 3)),
    "mul_backward": lambda r: (r(2, 3), r(2, 3), r(2, 3)),
    "scale_bias_relu_backward": lambda r: (r(2, 3), r(2, 3), r(3), 0.5),
    "reduce_sum_backward": lambda r: (r(), [2, 3]),
    "add_out": lambda r: (r(2, 3), r(2, 3), r(2, 3)),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_opcheck_of_what_has_no_gradient(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.wick, name).default, BACKWARDS[name](randn))


def test_opcheck_of_what_takes_no_tensor(made: Made) -> None:
    """One of torch's own rules takes it for a torch.zeros, and hands it a device."""
    overload = getattr(torch.ops.local, f"{made.name}_steps").default
    torch.library.opcheck(overload, (3, 4))
    torch.library.opcheck(overload, (0,))


def test_a_fake_written_by_hand_takes_precedence(make: Maker) -> None:
    made = make(SIZES)
    torch.library.register_fake(f"local::{made.name}_bump", lambda x, by=1.0: None)

    @torch.library.register_fake(f"local::{made.name}_repeat")
    def by_hand(x: torch.Tensor, k: int, scale: float = 1.0) -> Any:
        return x.new_empty(77), x.new_empty(1)

    mode = FakeTensorMode()
    with mode:
        x = mode.from_tensor(torch.randn(3))
        assert made.torch(x[None, None], x[None, None]).shape == (
            1,
            2,
            3,
        )  # nobody wrote one for it
        for door in ("direct", "wick", "torch"):
            assert Family(made, door)["_repeat"](x, 2)[0].shape == (77,)


# ---- sizes that depend on data ----


def unbacked() -> Any:
    return torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    )


def test_sizes_that_depend_on_data(ops: Family) -> None:
    def function(x: torch.Tensor, k: torch.Tensor) -> Any:
        n = k.item()
        torch._check(n >= 0)
        nonzero = x[torch.nonzero(x).flatten()]
        return ops["_repeat"](x, n)[0], wick.ops.mul(nonzero, nonzero)

    with unbacked():
        compiles = counter("inductor")
        compiled = torch.compile(function, backend=compiles, fullgraph=True)
        for k, x in ((2, [0.0, 1.0, 2.0]), (3, [1.0, 1.0, 2.0]), (4, [0.0, 0.0, 2.0])):
            args = torch.tensor(x), torch.tensor(k)
            torch.testing.assert_close(compiled(*args), function(*args))
        assert compiles.frame_count == 1


def test_sizes_that_depend_on_data_are_checked_at_run_time() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return wick.ops.mul(x[torch.nonzero(x).flatten()], y[torch.nonzero(y).flatten()])

    with unbacked():
        compiled = torch.compile(function, fullgraph=True)
        assert compiled(torch.ones(4), torch.ones(4)).tolist() == [1.0] * 4
        with pytest.raises(RuntimeError):
            compiled(torch.ones(4), torch.tensor([0.0, 1.0, 1.0, 1.0]))


# ---- graphs that are kept ----


class Model(torch.nn.Module):
    def __init__(self, made: Made) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.name = made.name

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> Any:
        ops = torch.ops.local
        y = getattr(ops, self.name)(self.linear(x), h)
        z = y * 2
        getattr(ops, f"{self.name}_bump")(z, 1.0)
        masked, _ = getattr(ops, f"{self.name}_maybe")(z.flatten(0, 1), want_mask=False)
        return wick.ops.relu(y) + masked.view(z.shape), wick.ops.scale_bias_relu(z, h[0, 0])


def exported(made: Made, strict: bool = False) -> tuple[Model, torch.export.ExportedProgram]:
    batch, steps = torch.export.Dim("batch"), torch.export.Dim("steps")
    model = Model(made).eval()
    shapes = ({0: batch, 1: steps}, {0: batch})
    args = (randn(2, 5, 8), randn(2, 1, 8))
    with torch.no_grad():  # a tensor that needs a gradient is not written in place
        return model, torch.export.export(model, args, dynamic_shapes=shapes, strict=strict)


LOAD = """
import sys, torch, wick
wick.load(sys.argv[1])
x, h, want = torch.load(sys.argv[3])
with torch.no_grad():
    got = torch.export.load(sys.argv[2]).module()(x, h)
torch.testing.assert_close(got, want)
print("same")
"""


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_runs_in_a_fresh_process(
    made: Made, strict: bool, tmp_path: Path
) -> None:
    model, program = exported(made, strict)
    names = [str(n.target) for n in program.graph.nodes]
    assert f"local.{made.name}.default" in names and "wick.relu.default" in names
    x, h = randn(3, 9, 8), randn(3, 1, 8)
    torch.export.save(program, tmp_path / "model.pt2")
    with torch.no_grad():
        torch.save((x, h, model(x, h)), tmp_path / "data.pt")
    files = str(made.path), str(tmp_path / "model.pt2"), str(tmp_path / "data.pt")
    assert run_python(LOAD, *files) == "same\n"


def test_a_decomposed_program_is_still_trained(made: Made) -> None:
    batch = torch.export.Dim("batch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Calling("relu"), torch.nn.Linear(4, 1))
    program = torch.export.export(model, (randn(3, 4),), dynamic_shapes=({0: batch},))
    trained = program.run_decompositions().module()
    x = randn(5, 4)
    trained(x).sum().backward()
    model(x).sum().backward()
    for mine, right in zip(trained.parameters(), model.parameters()):
        torch.testing.assert_close(mine.grad, right.grad)


class Calling(torch.nn.Module):
    """A module that calls a shipped operator."""

    def __init__(self, name: str, *args: Any) -> None:
        super().__init__()
        self.name, self.args = name, args

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(wick.ops, self.name)(x, *self.args)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(ops: Family, made: Made, mode: str) -> None:
    def function(x: torch.Tensor, h: torch.Tensor) -> Any:
        return ops[""](x, h), ops["_repeat"](x[0, 0], x.shape[1])[0]

    traced = make_fx(function, tracing_mode=mode)(randn(2, 3, 4), randn(2, 1, 4))
    assert f"local.{made.name}.default" in [str(n.target) for n in traced.graph.nodes]
    args = (
        (randn(5, 7, 4), randn(5, 1, 4)) if mode == "symbolic" else (randn(2, 3, 4), randn(2, 1, 4))
    )
    torch.testing.assert_close(traced(*args), function(*args))


def test_make_fx_of_a_gradient(ops: Family) -> None:
    def function(x: torch.Tensor, h: torch.Tensor) -> Any:
        return torch.autograd.grad((ops[""](x, h) ** 2).sum(), (x, h))

    args = randn(2, 3, 4, grad=True), randn(2, 1, 4, grad=True)
    traced = make_fx(function, tracing_mode="symbolic")(*args)
    other = randn(3, 6, 4, grad=True), randn(3, 1, 4, grad=True)
    torch.testing.assert_close(traced(*other), function(*other))


def test_in_place_operators_are_functionalised(ops: Family) -> None:
    from torch._dynamo.backends.common import aot_autograd

    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        view = y[1:]
        ops["_bump"](view, 5.0)
        return y.sum() + x

    x = randn(4)
    compiled = torch.compile(function, backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    torch.testing.assert_close(compiled(x), function(x))
    assert any("auto_functionalized" in str(n.target) for n in graphs[0].graph.nodes)


PACKAGED = """
import sys, torch, wick
wick.load(sys.argv[1])
x, h, want = torch.load(sys.argv[3])
torch.testing.assert_close(tuple(torch._inductor.aoti_load_package(sys.argv[2])(x, h)), want)
print("same")
"""


def has_cxx() -> bool:
    return subprocess.run(["sh", "-c", "command -v g++"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_cxx(), reason="Inductor needs a C++ compiler")
def test_ahead_of_time_packages_run_in_a_fresh_process(made: Made, tmp_path: Path) -> None:
    with torch.no_grad():
        model, program = exported(made)
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "model.pt2")
        )
        x, h = randn(3, 9, 8), randn(3, 1, 8)
        torch.save((x, h, tuple(model(x, h))), tmp_path / "data.pt")
    files = str(made.path), path, str(tmp_path / "data.pt")
    assert run_python(PACKAGED, *files) == "same\n"


def test_jit_trace(ops: Family, tmp_path: Path) -> None:
    traced = torch.jit.trace(lambda x, h: ops[""](x, h) * 2, (randn(2, 3, 4), randn(2, 1, 4)))
    traced.save(str(tmp_path / "traced.pt"))
    x, h = randn(3, 5, 4), randn(3, 1, 4)
    again = torch.jit.load(str(tmp_path / "traced.pt"))
    torch.testing.assert_close(again(x, h), ops[""](x, h) * 2)


# ---- models ----


class Ten(torch.nn.Module):
    """Ten calls of Wick's operators, by all doors; in f64, where the order of sums is not seen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
        self.bias = torch.nn.Parameter(torch.randn(16))
        self.scale = torch.nn.Parameter(torch.tensor(1.3))
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops, other = wick.ops, torch.ops.wick
        h = self.first(x)
        for _ in range(2):
            h = ops.scale_bias_relu(h, self.bias, 0.9)
            h = other.scale_bias_relu_learned(h, self.bias, self.scale)
            h = ops.muladd(ops.addone(h), other.relu(h), 0.1)
        h = self.last(h)
        return ops.reduce_sum(ops.mul(h, h)) / x.shape[0] + other.reduce_sum_dim(h[None]).sum()


def test_ten_operators_in_one_graph_that_is_compiled_twice_at_most() -> None:
    explained = torch._dynamo.explain(Ten())(randn(8, 16).double())
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    model, compiles = Ten(), counter("inductor")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=compiles)
    for batch in (8, 5, 13, 8, 31):
        x = randn(batch, 16).double()
        loss = compiled(x)
        model.zero_grad()
        loss.backward()
        got = {n: p.grad.clone() for n, p in model.named_parameters()}
        model.zero_grad()
        right = model(x)
        right.backward()
        torch.testing.assert_close(loss, right)
        for n, p in model.named_parameters():
            torch.testing.assert_close(got[n], p.grad, msg=lambda said, n=n: f"{n}: {said}")
    assert compiles.frame_count <= 2


def test_a_file_that_is_loaded_again_is_seen(make: Maker) -> None:
    made = make(SIZES)
    function = f"{made.name}_bump"
    module = made.loaded

    def run(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        getattr(wick.ops.local, function)(y)
        return y

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert compiled(torch.zeros(2)).tolist() == [2.0, 2.0]
    made.path.write_text(spell(SIZES.replace("x[i] += (T)by;", "x[i] += 7;"), made.name))
    assert wick.load(made.path) is not module
    assert compiled(torch.zeros(2)).tolist() == [8.0, 8.0]


# ---- what importing costs ----

QUIET = """
import sys, torch
before = set(sys.modules)
import wick
wick.ops.relu(torch.ones(2, requires_grad=True)).sum().backward()
brought = set(sys.modules) - before
assert not any(m.startswith(("torch._dynamo", "torch._inductor")) for m in sys.modules), "dynamo"
for module in ("torch.fx.experimental.symbolic_shapes", "torch.distributed.tensor", "sympy"):
    assert module not in sys.modules, module
print(sorted(m for m in brought if m.startswith("wick") and m.rsplit("._")[-1] in ("fake", "vmap", "dtensor", "autocast")))
"""


def test_importing_wick_imports_no_compiler() -> None:
    assert run_python(QUIET) == "[]\n"


LATE = """
import torch, wick, sys
assert "torch._dynamo" not in sys.modules
f = torch.compile(lambda x: wick.ops.relu(x), fullgraph=True, backend="aot_eager")
print(f(torch.tensor([-1.0, 2.0])).tolist())
"""


def test_dynamo_may_be_imported_after_wick() -> None:
    assert run_python(LATE) == "[0.0, 2.0]\n"


EARLY = """
import torch, torch._dynamo, torch.distributed.tensor
import wick
f = torch.compile(lambda x: wick.ops.relu(x), fullgraph=True, backend="aot_eager")
print(f(torch.tensor([-1.0, 2.0])).tolist())
"""


def test_dynamo_may_be_imported_before_wick() -> None:
    assert run_python(EARLY) == "[0.0, 2.0]\n"


def test_warnings_are_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(lambda x: wick.ops.relu(x), fullgraph=True, backend="eager")(torch.ones(2))
