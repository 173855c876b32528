"""torch.func: transforms one inside the other, against the same formula in plain torch; vmap along `batch` dims and
without them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from support import Made
from torch._vmap_internals import _vmap
from torch.func import functional_call, grad, jacrev, jvp, stack_module_state, vjp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import wick

Maker = Callable[..., Made]
Function = Callable[..., Any]

CUBE = """\
WICK_OP(OP, "x: T[*N] -> y: T[*N] where T: f32 f64 CLAUSE");
WICK_OP(OP_backward, "dy: T[*N], x: T[*N] -> dx: T[*N] CLAUSE");
WICK_OP(OP_backward_backward, "ddx: T[*N], dy: T[*N], x: T[*N] -> ddy: T[*N], dx: T[*N] CLAUSE");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i] * x[i] * x[i];
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dx[i] = 3 * x[i] * x[i] * dy[i];
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_backward_cpu(wick_ctx *ctx, const T *ddx, const T *dy, const T *x,
                                               T *ddy, T *dx, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        ddy[i] = 3 * x[i] * x[i] * ddx[i];
        dx[i] = 6 * x[i] * dy[i] * ddx[i];
    }
    return WICK_OK;
}
"""


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Torch warns where it falls back to a loop of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", "`torch.jit.script` is deprecated"
        )  # torch, in forward mode
        yield


@pytest.fixture(scope="module", params=["", "batch N"])
def cube(make: Maker, request: pytest.FixtureRequest) -> Made:
    return make(CUBE.replace("CLAUSE", request.param))


X = torch.randn(3, 4, dtype=torch.float64)
Y = torch.randn(3, 4, dtype=torch.float64)


def outside(f: Function, *, batched: bool) -> torch.Tensor:
    """Autograd outside of a transform."""
    z = X.clone().requires_grad_()
    y = vmap(f)(z) * Y if batched else grad(lambda y: (f(z) * f(y)).sum())(Y)
    y.sum().backward()
    return z.grad


COMPOSITIONS: dict[str, Callable[[Function], torch.Tensor]] = {
    "grad": lambda f: grad(lambda x: (f(x) * Y).sum())(X),
    "grad of grad": lambda f: grad(lambda x: grad(lambda x: f(x).sum())(x).sum())(X),
    "the outer one only": lambda f: grad(lambda x: grad(lambda y: (f(x) * y).sum())(Y).sum())(X),
    "both": lambda f: grad(lambda x: grad(lambda y: (f(x) * f(y)).sum())(Y).sum())(X),
    "vmap": lambda f: vmap(f)(X),
    "vmap of columns": lambda f: vmap(f, in_dims=1, out_dims=1)(X),
    "vmap of vmap": lambda f: vmap(vmap(f))(X),
    "vmap of vmap, crossed": lambda f: vmap(vmap(f, in_dims=1), in_dims=0)(X[None].expand(2, 3, 4)),
    "vmap of grad": lambda f: vmap(grad(lambda x: f(x).sum()))(X),
    "grad of vmap": lambda f: grad(lambda x: (vmap(f)(x) * Y).sum())(X),
    "grad of vmap of grad": lambda f: grad(
        lambda x: (vmap(grad(lambda x: f(x).sum()))(x) * Y).sum()
    )(X),
    "vmap of grad of grad": lambda f: vmap(grad(lambda x: grad(lambda x: f(x).sum())(x).sum()))(X),
    "jacrev": lambda f: jacrev(f)(X),
    "jacrev of jacrev": lambda f: jacrev(jacrev(lambda x: f(x).sum()))(X),
    "vmap of jacrev": lambda f: vmap(jacrev(f))(X),
    "vjp": lambda f: vjp(f, X)[1](Y)[0],
    "vmap of vjp": lambda f: vmap(vjp(f, X)[1])(torch.stack([X, Y]))[0],
    "vmap around another's grad": lambda f: vmap(
        lambda r: grad(lambda y: (f(r) * f(y)).sum())(Y[0])
    )(X),
    "autograd outside": lambda f: outside(f, batched=False),
    "autograd outside vmap": lambda f: outside(f, batched=True),
    "no_grad inside": lambda f: grad(lambda x: (f(x).detach() * x).sum())(X),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_transforms_compose(cube: Made, door: str, name: str) -> None:
    compute = COMPOSITIONS[name]
    torch.testing.assert_close(compute(cube.by(door)), compute(lambda x: x * x * x))


@pytest.mark.parametrize("name", ["cube", "mul", "scale_bias_relu_learned", "reduce_sum_dim"])
def test_the_vmap_of_autograd(cube: Made, door: str, name: str) -> None:
    """is_grads_batched and what stands on it: another vmap than torch.func's."""
    ops = torch.ops.wick if door == "torch" else wick.ops
    s = torch.tensor(0.7, dtype=torch.float64)
    ours, theirs = {
        "cube": (cube.by(door), lambda x: x * x * x),
        "mul": (lambda x: ops.mul(x, x[:1].expand(3, 4)), lambda x: x * x[:1]),
        "scale_bias_relu_learned": (
            lambda x: ops.scale_bias_relu_learned(x, x[0], s * x[0, 0]),
            lambda x: torch.relu(x * s * x[0, 0] + x[0]),
        ),
        "reduce_sum_dim": (lambda x: ops.reduce_sum_dim(x[None])[0], lambda x: x.sum(0)),
    }[name]
    x = X.clone().requires_grad_()
    assert torch.autograd.gradcheck(ours, (x,), check_batched_grad=True)
    found = []
    for f in (ours, theirs):
        y = f(x)
        dy = torch.linspace(-1, 1, 5 * y.numel(), dtype=torch.float64).view(5, *y.shape)
        (dx,) = torch.autograd.grad(y, x, dy, is_grads_batched=True)
        both = _vmap(lambda u, f=f: _vmap(lambda v, f=f: f(v) + f(u))(torch.stack([X, Y])))
        jacobian = torch.autograd.functional.jacobian(f, X, vectorize=True)
        found.append((dx, jacobian, both(torch.stack([Y, X, Y]))))
    torch.testing.assert_close(*found)


def test_the_vmap_of_autograd_in_another_thread(cube: Made, door: str) -> None:
    """As a backward on a GPU runs: the thread has not been told of any vmap."""
    with ThreadPoolExecutor(1) as pool:

        def elsewhere(f: Function) -> Function:
            return lambda *args: pool.submit(f, *args).result()

        ours, theirs = elsewhere(cube.by(door)), lambda x: x * x * x
        product = elsewhere(torch.ops.wick.mul if door == "torch" else wick.ops.mul)
        for f, mul in ((ours, product), (theirs, torch.mul)):
            once = _vmap(f)(X)
            inner = _vmap(lambda u, mul=mul: _vmap(lambda v, mul=mul: mul(v, u))(X))(Y)
            alone = _vmap(lambda u, f=f: _vmap(lambda v, f=f: f(u) + v)(X))(Y)
            if f is ours:
                found = once, inner, alone
        torch.testing.assert_close(found, (once, inner, alone))


def test_forward_mode_is_refused(cube: Made, door: str) -> None:
    words = f"{cube.name}: x carries a forward-mode gradient"
    with pytest.raises(RuntimeError, match=words):
        jvp(cube.by(door), (X,), (Y,))
    with pytest.raises(RuntimeError, match=words):
        vmap(lambda x, y: jvp(cube.by(door), (x,), (y,)))(X, Y)
    with pytest.raises(RuntimeError, match=words):
        grad(lambda x: jvp(cube.by(door), (x,), (Y,))[1].sum())(X)


def test_per_sample_gradients_of_a_model(door: str) -> None:
    ops = torch.ops.wick if door == "torch" else wick.ops

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 6, bias=False)
            self.bias = torch.nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.reduce_sum(ops.scale_bias_relu(self.linear(x), self.bias, 0.5))

    model = Model().double()
    parameters = dict(model.named_parameters())
    each = vmap(grad(lambda p, x: functional_call(model, p, (x,))), in_dims=(None, 0))(
        parameters, X
    )
    for i, x in enumerate(X):
        model.zero_grad()
        model(x).backward()
        for name, p in model.named_parameters():
            torch.testing.assert_close(each[name][i], p.grad)


def test_ensembles() -> None:
    models = [Scaled() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    base = Scaled().to("meta")
    got = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(
        parameters, buffers, X
    )
    torch.testing.assert_close(got, torch.stack([m(X) for m in models]))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(4, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return wick.ops.scale_bias_relu(x, self.bias, 2.0)


# ---- vmap's rule ----


class Calls(TorchDispatchMode):
    """Counts the calls of one operator that are really made."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.n = name, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += func._schema.name == self.name
        return func(*args, **(kwargs or {}))


ROWS = """\
WICK_OP(OP, "x: T[N, C], w?: T[C], s: shape[N, K], k: float = 1.0 -> y: T[K, N], m?: T[N] where T: f64 batch N");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *w, double k, T *y, T *m, int64_t N, int64_t C,
                             int64_t K)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        T sum = 0;
        for (int64_t c = 0; c < C; c++)
            sum += x[n * C + c] * (w ? w[c] : 1);
        for (int64_t i = 0; i < K; i++)
            y[i * N + n] = sum * (T)k + (T)i;
        if (m) m[n] = sum;
    }
    return WICK_OK;
}
"""


@pytest.fixture(scope="module")
def rows(make: Maker) -> Made:
    return make(ROWS)


def rows_in_torch(x: torch.Tensor, w: torch.Tensor | None, k: float) -> torch.Tensor:
    sums = (x * (1 if w is None else w)).sum(-1)
    return sums[None] * k + torch.arange(3, dtype=x.dtype)[:, None]


@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_named_dim_takes_the_batch_in_one_call(
    rows: Made, door: str, in_dim: int, weighted: bool
) -> None:
    x = torch.randn(5, 6, 7, dtype=torch.float64)
    one = x.select(in_dim, 0)
    w = torch.randn(one.shape[1], dtype=torch.float64) if weighted else None
    with Calls(f"local::{rows.name}") as calls:
        y, m = vmap(lambda x: rows.by(door)(x, w, [one.shape[0], 3], k=2.0), in_dims=in_dim)(x)
    assert calls.n == 1
    right = vmap(lambda x: rows_in_torch(x, w, 2.0), in_dims=in_dim)(x)
    torch.testing.assert_close(y, right)
    torch.testing.assert_close(m, (y[:, 0]) / 2)


def test_what_is_not_wanted_stays_away_from_vmap(rows: Made, door: str) -> None:
    x = torch.randn(5, 6, 7, dtype=torch.float64)

    def call(x: torch.Tensor) -> torch.Tensor:
        y, m = rows.by(door)(x, None, [6, 3], want_m=False)
        assert m is None
        return y

    torch.testing.assert_close(vmap(call)(x), vmap(lambda x: rows_in_torch(x, None, 1.0))(x))


def test_an_argument_without_the_dim_is_looped_over(rows: Made, door: str) -> None:
    x, w = torch.randn(6, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    with Calls(f"local::{rows.name}") as calls:
        y, _ = vmap(lambda w: rows.by(door)(x, w, [6, 3]))(w)
    assert calls.n == 5
    torch.testing.assert_close(y, vmap(lambda w: rows_in_torch(x, w, 1.0))(w))


@pytest.mark.parametrize("size", [0, 1])
def test_no_call_at_all_and_a_single_one(rows: Made, cube: Made, size: int) -> None:
    x = torch.randn(size, 6, 7, dtype=torch.float64)
    y, m = vmap(lambda x: rows.torch(x, None, [6, 3]))(x)
    assert y.shape == (size, 3, 6) and m.shape == (size, 6)
    w = torch.randn(size, 7, dtype=torch.float64)
    y, m = vmap(lambda w: rows.torch(X.new_ones(6, 7), w, [6, 3]))(w)
    assert y.shape == (size, 3, 6) and m.shape == (size, 6) and y.dtype == torch.float64
    assert vmap(cube.torch)(x).shape == x.shape


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_leading_dims_take_the_batch_in_front(door: str, shape: tuple[int, ...]) -> None:
    ops = torch.ops.wick if door == "torch" else wick.ops
    x, bias = torch.randn(5, *shape), torch.randn(4)
    with Calls("wick::scale_bias_relu") as calls:
        y = vmap(lambda x: ops.scale_bias_relu(x, bias, 2.0))(x)
        z = vmap(lambda x: ops.scale_bias_relu(x, bias, 2.0), in_dims=1, out_dims=1)(
            x.movedim(0, 1)
        )
    assert calls.n == 2
    torch.testing.assert_close(y, torch.relu(x * 2 + bias))
    torch.testing.assert_close(z, y.movedim(0, 1))


def test_arguments_that_are_not_batched_are_expanded(door: str) -> None:
    ops = torch.ops.wick if door == "torch" else wick.ops
    a, b = torch.randn(5, 3), torch.randn(3)
    with Calls("wick::mul") as calls:
        torch.testing.assert_close(vmap(ops.mul, in_dims=(0, None))(a, b), a * b)
        torch.testing.assert_close(vmap(ops.mul, in_dims=(None, 0))(b, a), a * b)
        torch.testing.assert_close(vmap(ops.mul, in_dims=(1, 1))(a, a), (a * a).T)
    assert calls.n == 3


def test_in_place(door: str) -> None:
    ops = torch.ops.wick if door == "torch" else wick.ops
    a, out = torch.randn(5, 3), torch.zeros(3, 5)
    with Calls("wick::add_out") as calls:
        vmap(lambda a, out: (ops.add_out(a, a, out), a)[1], in_dims=(0, 1))(a, out)
    assert calls.n == 1
    torch.testing.assert_close(out, 2 * a.T)
    with pytest.raises(RuntimeError, match="add_out: out is written in place, but only other"):
        vmap(lambda a: (ops.add_out(a, a, torch.zeros(3)), a)[1])(a)


IN_PLACE = """\
WICK_OP(OP, "x: f32[N], sums!: f32[M] -> n: f32[M]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *sums, float *n, int64_t N, int64_t M)
{
    (void)ctx;
    for (int64_t m = 0; m < M; m++) {
        n[m] = (float)N;
        for (int64_t i = 0; i < N; i++)
            sums[m] += x[i];
    }
    return WICK_OK;
}
WICK_OP(OP_count, "x: f32[N] -> n: int");
WICK_IMPL wick_status OP_count_cpu(wick_ctx *ctx, const float *x, int64_t *n, int64_t N)
{
    (void)ctx, (void)x;
    *n = N;
    return WICK_OK;
}
"""


def test_in_place_one_by_one(make: Maker, door: str) -> None:
    made = make(IN_PLACE)
    x, sums = torch.randn(5, 3), torch.zeros(2, 5)
    n = vmap(made.by(door), in_dims=(0, 1))(x, sums)
    assert n.tolist() == [[3.0, 3.0]] * 5
    torch.testing.assert_close(sums, x.sum(1).expand(2, 5))


def test_a_plain_number_cannot_be_batched(make: Maker) -> None:
    made = make(IN_PLACE)
    with pytest.raises(RuntimeError, match=f"{made.name}_count: returns a plain number \\(n\\)"):
        vmap(getattr(torch.ops.local, f"{made.name}_count"))(torch.randn(5, 3))


def test_errors_inside_vmap_keep_their_words() -> None:
    with pytest.raises(
        RuntimeError, match="^mul: b begins with \\[3, 2\\], but \\*N is \\[3, 4\\]$"
    ):
        vmap(torch.ops.wick.mul)(torch.randn(3, 4), torch.randn(3, 2))


def test_transforms_inside_a_compiled_graph(cube: Made, door: str) -> None:
    op = cube.by(door)
    for function in (
        lambda x: vmap(lambda x: op(x))(x),
        lambda x: grad(lambda x: op(x).sum())(x),
        lambda x: vmap(grad(lambda x: op(x).sum()))(x),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch._dynamo.reset()
            compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
            for n in (3, 5):
                x = torch.randn(n, 4)
                torch.testing.assert_close(compiled(x), function(x))


def test_functionalize(cube: Made, door: str) -> None:
    got = torch.func.functionalize(lambda x: cube.by(door)(x).add_(1))(X)
    torch.testing.assert_close(got, X**3 + 1)
