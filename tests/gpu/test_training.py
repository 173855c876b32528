"""Training on the GPU: gradients of operators of one's own, compiled, batched, under autocast and captured, against plain
torch in float64; the examples' kernels against their CPU halves."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from support import fresh, spell
from torch.func import grad, vmap

import wick

ROOT = Path(__file__).resolve().parents[2]
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
F64 = torch.float64

AFFINE = """\
WICK_OP(OP, "x: T[*N, C], w?: T[C], s: A[], k: int = 2 -> y: T[*N, C], q?: T[*N] where T: f16 bf16 f32 f64 CLAUSE");
WICK_OP(OP_backward, "dy?: T[*N, C], dq?: T[*N], x: T[*N, C], w?: T[C], s: A[], k: int"
                     " -> dx?: T[*N, C], dw?: T[C], ds?: A[]");
WICK_FN void OP_row(const T *x, const T *w, A s, int64_t k, T *y, T *q, int64_t C)
{
    A sum = 0;
    for (int64_t c = 0; c < C; c++) {
        y[c] = wick_T((A)k * s * wick_A(x[c]) * (w ? wick_A(w[c]) : 1));
        sum += wick_A(x[c]) * wick_A(x[c]);
    }
    if (q) *q = wick_T(sum);
}
WICK_FN void OP_column(const T *dy, const T *dq, const T *x, A w, A s, int64_t k, T *dx, A *dw, int64_t N, int64_t C)
{
    *dw = 0;
    for (int64_t n = 0; n < N; n++) {
        A v = wick_A(x[n * C]), d = dy ? wick_A(dy[n * C]) * (A)k : 0;
        *dw += d * v;
        if (dx) dx[n * C] = wick_T(d * s * w + (dq ? 2 * v * wick_A(dq[n]) : 0));
    }
}
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *w, const A *s, int64_t k, T *y, T *q, int64_t N,
                             int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++)
        OP_row(x + n * C, w, *s, k, y + n * C, q ? q + n : NULL, C);
    return WICK_OK;
}
WICK_FN void OP_all_columns(const T *dy, const T *dq, const T *x, const T *w, A s, int64_t k, T *dx, T *dw, A *ds,
                            int64_t N, int64_t C)
{
    A sum = 0;
    for (int64_t c = 0; c < C; c++) {
        A weight = w ? wick_A(w[c]) : 1, one;
        OP_column(dy ? dy + c : NULL, dq, x + c, weight, s, k, dx ? dx + c : NULL, &one, N, C);
        if (dw) dw[c] = wick_T(s * one);
        sum += weight * one;
    }
    if (ds) *ds = sum;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, const T *dq, const T *x, const T *w, const A *s,
                                      int64_t k, T *dx, T *dw, A *ds, int64_t N, int64_t C)
{
    (void)ctx;
    OP_all_columns(dy, dq, x, w, *s, k, dx, dw, ds, N, C);
    return WICK_OK;
}
static __global__ void OP_rows(const T *x, const T *w, const A *s, int64_t k, T *y, T *q, int64_t N, int64_t C)
{
    int64_t n = wick_thread();
    if (n < N) OP_row(x + n * C, w, *s, k, y + n * C, q ? q + n : NULL, C);
}
WICK_IMPL wick_status OP_cuda(wick_ctx *ctx, const T *x, const T *w, const A *s, int64_t k, T *y, T *q, int64_t N,
                              int64_t C)
{
    return WICK_LAUNCH(ctx, OP_rows, wick_1d(wick_ceil_div(N, 64)), wick_1d(64), 0, x, w, s, k, y, q, N, C);
}
static __global__ void OP_columns(const T *dy, const T *dq, const T *x, const T *w, const A *s, int64_t k, T *dx, T *dw,
                                  A *ds, int64_t N, int64_t C)
{
    OP_all_columns(dy, dq, x, w, *s, k, dx, dw, ds, N, C);
}
WICK_IMPL wick_status OP_backward_cuda(wick_ctx *ctx, const T *dy, const T *dq, const T *x, const T *w, const A *s,
                                       int64_t k, T *dx, T *dw, A *ds, int64_t N, int64_t C)
{
    return WICK_LAUNCH(ctx, OP_columns, wick_1d(1), wick_1d(1), 0, dy, dq, x, w, s, k, dx, dw, ds, N, C);
}
"""

Op = Callable[..., Any]


def affine(x: torch.Tensor, w: torch.Tensor | None, s: torch.Tensor, k: int = 2) -> Any:
    """What it means."""
    return k * s * x * (1 if w is None else w), (x * x).sum(-1)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Op, Op]]:
    """The operator with a clause in its signature, by both doors."""
    made: dict[str, tuple[Op, Op]] = {}

    def get(clause: str) -> tuple[Op, Op]:
        if clause not in made:
            name = fresh("affine")
            path = tmp_path_factory.mktemp("source") / f"{name}.cu"
            path.write_text(spell(AFFINE.replace("CLAUSE", clause), name))
            made[clause] = getattr(wick.load(path), name), getattr(torch.ops.local, name)
        return made[clause]

    return get


@pytest.fixture(params=["wick.ops", "torch.ops"])
def op(make: Any, request: pytest.FixtureRequest) -> Op:
    return make("batch N")[request.param == "torch.ops"]


def tensor(*shape: int, dtype: torch.dtype = F64) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=F64).to(dtype)


# ---- gradients ----


@pytest.mark.parametrize("needed", range(1, 8))
@pytest.mark.parametrize("results", ["y", "q", "both"])
def test_what_is_needed_is_right_and_the_rest_is_absent(op: Op, needed: int, results: str) -> None:
    torch.manual_seed(1)
    for shape in ((5, 7), (2, 3, 4), (6,), (0, 3), (3, 0)):
        values = [tensor(*shape), tensor(shape[-1]), tensor()]
        found = []
        for f in (op, affine):
            leaves = [v.clone().requires_grad_(bool(needed >> i & 1)) for i, v in enumerate(values)]
            y, q = f(*leaves, 3)
            loss = (y.sum() * 2 if results != "q" else 0) + ((q * q).sum() if results != "y" else 0)
            if isinstance(loss, torch.Tensor) and loss.requires_grad:
                loss.backward()
            found.append([torch.zeros_like(v) if v.grad is None else v.grad for v in leaves])
            assert all(v.grad is None for v in leaves if not v.requires_grad)
        torch.testing.assert_close(*found)


def test_gradcheck_and_opcheck(op: Op, make: Any) -> None:
    torch.manual_seed(2)
    x, w, s = (tensor(*shape).requires_grad_() for shape in ((3, 4), (4,), ()))
    assert torch.autograd.gradcheck(lambda x, w, s: op(x, w, s, 3), (x, w, s))
    assert torch.autograd.gradcheck(lambda x, s: op(x, None, s, want_q=False)[0], (x, s))
    assert torch.autograd.gradcheck(op, (x, w, s), check_batched_grad=True)
    for args in ((x, w, s), (x, None, s.detach()), (x.detach(), w.detach(), s.detach(), 5)):
        torch.library.opcheck(make("batch N")[1].default, args)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(op: Op, reentrant: bool) -> None:
    found = []
    for f in (op, affine):
        torch.manual_seed(3)
        leaves = [t.requires_grad_() for t in (tensor(4, 5), tensor(5), tensor())]
        y, q = torch.utils.checkpoint.checkpoint(f, *leaves, use_reentrant=reentrant)
        ((y * y).sum() + q.sum()).backward()
        found.append([t.grad for t in leaves])
    torch.testing.assert_close(*found)


def test_transforms(op: Op) -> None:
    torch.manual_seed(5)
    x, w, s = tensor(6, 3, 4), tensor(4), tensor()

    def loss(f: Op) -> Op:
        return lambda x, w, s: (f(x, w, s)[0] ** 2).sum() + f(x, w, s)[1].sum()

    for compute in (
        lambda f: grad(loss(f), argnums=(0, 1, 2))(x, w, s),
        lambda f: vmap(f, in_dims=(0, None, None))(x, w, s),
        lambda f: vmap(f, in_dims=(1, None, None), out_dims=1)(x, w, s),
        lambda f: vmap(grad(loss(f), argnums=(0, 1, 2)), in_dims=(0, None, None))(x, w, s),
        lambda f: vmap(grad(loss(f), argnums=(0, 1)), in_dims=(None, 0, None))(x, x[:, 0], s),
        lambda f: torch.func.jacrev(lambda w: f(x, w, s)[0])(w),
    ):
        torch.testing.assert_close(compute(op), compute(affine))


# ---- autocast ----


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("door", [0, 1], ids=["wick.ops", "torch.ops"])
def test_autocast(make: Any, low: torch.dtype, door: int) -> None:
    x, w, s = torch.ones(2, 3), torch.ones(3), torch.tensor(0.5)
    for clause, given, expected in (
        ("autocast keep", torch.float32, torch.float32),
        ("autocast keep", low, low),
        ("autocast f32", low, torch.float32),
        ("autocast follow", torch.float32, low),
        ("autocast follow", torch.float64, torch.float64),
    ):
        accumulated = F64 if given == F64 else torch.float32
        leaves = [t.to("cuda", given, copy=True).requires_grad_() for t in (x, w)]
        scale = s.to("cuda", accumulated, copy=True).requires_grad_()
        with torch.autocast("cuda", dtype=low):
            y, q = make(clause)[door](*leaves, scale)
            assert (y.dtype, q.dtype) == (expected, expected), clause
        with torch.autocast("cpu", dtype=torch.bfloat16):  # another device's
            assert make(clause)[door](*leaves, scale)[0].dtype == given
        (y.float().sum() + q.float().sum()).backward()
        assert [t.grad.dtype for t in leaves] == [given, given]
        assert scale.grad.dtype == accumulated
        assert y.tolist() == [[1.0] * 3] * 2 and scale.grad.item() == 12.0
        assert leaves[0].grad.tolist() == [[3.0] * 3] * 2 and leaves[1].grad.tolist() == [2.0] * 3


# ---- models ----


class Model(torch.nn.Module):
    def __init__(self, ours: Op | None) -> None:
        super().__init__()
        self.ours = ours
        self.first, self.last = torch.nn.Linear(6, 16, bias=False), torch.nn.Linear(16, 3)
        self.bias, self.w = (torch.nn.Parameter(torch.randn(16)) for _ in range(2))
        self.scale = torch.nn.Parameter(torch.tensor(0.8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.ours is None:
            h = torch.relu(h * 1.5 + self.bias)
            h = torch.relu(h * self.scale + self.bias)
            y, q = affine(h, self.w, self.scale)
        else:
            h = wick.ops.scale_bias_relu(h, self.bias, 1.5)
            h = wick.ops.scale_bias_relu_learned(h, self.bias, self.scale)
            y, q = self.ours(h, self.w, self.scale)
        return self.last(torch.tanh(y) + 0.01 * q[:, None])


def models(op: Op) -> tuple[Model, Model]:
    torch.manual_seed(6)
    ours = Model(op).to("cuda", F64)
    theirs = Model(None).to("cuda", F64)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def train(model: torch.nn.Module, call: Op, sizes: list[int]) -> list[torch.Tensor]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step, rows in enumerate(sizes):
        torch.manual_seed(step)
        x, target = tensor(rows, 6), tensor(rows, 3)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(call(x), target).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("how", ["eager", "inductor", "reduce-overhead"])
def test_a_model_trains_as_in_plain_torch(op: Op, how: str) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    ours, theirs = models(op)
    call: Op = ours
    if how == "inductor":
        call = torch.compile(ours, fullgraph=True)
    elif how == "reduce-overhead":  # with CUDA graphs
        call = torch.compile(ours, fullgraph=True, mode="reduce-overhead")
    sizes = [32, 32, 48, 24, 40, 32] if how != "reduce-overhead" else [32] * 6
    torch.testing.assert_close(train(ours, call, sizes), train(theirs, theirs, sizes))
    if how == "inductor":
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


def test_a_training_step_can_be_captured(op: Op) -> None:
    """Forward, backward and optimizer in one CUDA graph, replayed over other data."""
    ours, theirs = models(op)
    x, target = tensor(32, 6), tensor(32, 3)
    batches = [(tensor(32, 6), tensor(32, 3)) for _ in range(4)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (ours, theirs)]

    def step(model: Model, optimizer: Any, x: torch.Tensor, target: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()

    state = {k: v.clone() for k, v in ours.state_dict().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(ours, optimizers[0], x, target)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(ours, optimizers[0], x, target)
    ours.load_state_dict(state)
    for data, wanted in batches:
        x.copy_(data)
        target.copy_(wanted)
        graph.replay()
        step(theirs, optimizers[1], data, wanted)
    torch.testing.assert_close(list(ours.parameters()), list(theirs.parameters()))


def test_exported(op: Op) -> None:
    torch.manual_seed(8)
    model = Model(op).to("cuda", F64)
    rows = torch.export.Dim("rows", min=2, max=100)
    program = torch.export.export(model, (tensor(8, 6),), dynamic_shapes=({0: rows},))
    for size in (8, 33):
        x = tensor(size, 6)
        torch.testing.assert_close(program.module()(x), model(x))


# ---- the examples ----


def on_both(
    op: Op, arguments: list[Any], numbers: tuple[Any, ...] = (), atol: float = 1e-10
) -> None:
    """Results and gradients on the GPU and on the CPU, in float64."""
    found = []
    for device in ("cuda", "cpu"):
        leaves = [a.detach().to(device).requires_grad_(a.is_floating_point()) for a in arguments]
        results = op(*leaves, *numbers)
        results = results if isinstance(results, tuple) else (results,)
        needed = [t for t in leaves if t.requires_grad]
        loss = sum((r.double().sin()).sum() for r in results)
        gradients = torch.autograd.grad(loss, needed) if loss.requires_grad else ()
        found.append([t.cpu() for t in (*results, *gradients)])
    torch.testing.assert_close(*found, rtol=atol, atol=atol)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 10, 64, 3), (3, 5, 7, 11), (2, 0, 3, 3), (5, 4, 300, 200)]
)
def test_template(shape: tuple[int, int, int, int]) -> None:
    B, S, N, K = shape
    loaded = wick.load(sources=sorted((ROOT / "examples/template/ops").glob("*.c")))
    torch.manual_seed(9)
    on_both(loaded.convrnn, [tensor(B, S, N), tensor(1, 1, K) / K, tensor(B, N)])
    on_both(loaded.my_kernel, [tensor(B, S, N)])


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 0), (33, 65), (2000, 300)])
def test_chapter5(shape: tuple[int, int]) -> None:
    loaded = wick.load(sources=sorted((ROOT / "examples/chapter5/ops").glob("*.c")))
    torch.manual_seed(10)
    on_both(loaded.fused_op, [tensor(*shape), tensor(shape[1])], (2.0,))
    on_both(loaded.custom_relu, [tensor(*shape)])
    on_both(loaded.reduce_sum, [tensor(*shape) / 1000])
    for dtype in TYPES:
        x = tensor(*shape, dtype=dtype)
        assert torch.equal(loaded.custom_relu(x), torch.relu(x.cpu()).cuda())
        torch.testing.assert_close(
            loaded.reduce_sum(x).double(), x.double().sum().to(dtype).double()
        )


def test_lstm_cell_and_add_constant() -> None:
    torch.manual_seed(11)
    cell = wick.load(ROOT / "examples/rnnt/lstm_cell.c").lstm_cell
    for rows, size in ((1, 1), (0, 4), (3, 0), (33, 70)):
        on_both(cell, [tensor(rows, 4 * size), tensor(rows, size)])
    add = wick.load(ROOT / "examples/inductor/add_constant.c").add_constant
    values, x = torch.arange(2, 400, 2, device="cuda"), torch.randn(1, device="cuda")
    assert torch.equal(add(values, x), values + x)


def test_the_training_example() -> None:
    snake = wick.load(ROOT / "examples/training/snake.c").snake
    torch.manual_seed(12)
    for shape in ((1, 1), (0, 4), (2, 3, 5), (300, 200)):
        on_both(snake, [tensor(*shape), tensor(shape[-1]).abs() + 0.5])
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/training/train.py")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 0.01
    assert runpy.run_path(str(ROOT / "examples/training/train.py"))["device"] == "cuda"
