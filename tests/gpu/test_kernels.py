"""The shipped operators' kernels where they change their ways: sizes around packs, warps, blocks and parts; memory that
starts anywhere; sums that several blocks share; more elements than 32 bits count. What is right is said in promises.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from promises import (
    DTYPES,
    accumulation,
    check_add_out,
    check_addone,
    check_addone_backward,
    check_mul,
    check_muladd,
    check_product_backward,
    check_reduce_sum,
    check_reduce_sum_backward,
    check_reduce_sum_dim,
    check_reduce_sum_dim_backward,
    check_relu,
    check_relu_backward,
    check_scale_bias_relu,
    check_scale_bias_relu_backward,
    f64,
    random,
    specials,
    unit,
)

import wick

ops = torch.ops.wick
Tensor = torch.Tensor
each_type = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])

SIZES = [0, 1, 2, 3, 5, 7, 8, 9, 31, 32, 33, 63, 65, 127, 129, 255, 257, 511, 512, 513, 1009, 1025]
SIZES += [2047, 4097, 65537, (1 << 20) - 1, (1 << 20) + 3, (1 << 22) + 1]
ROWS = [0, 1, 2, 5, 131, 1000]
COLUMNS = [1, 2, 3, 4, 7, 8, 17, 31, 32, 33, 64, 100, 127, 128, 129, 256, 511, 1024, 1025]
MATRICES = [(65537, 1), (65536, 3), (70001, 8), (200003, 16), (33333, 33), (4097, 129), (1, 100003)]
MATRICES += [(3, 65537), (2, 70000), (300, 4096), (5, 0), (0, 0)]
# Q = 1: rows that part of a warp, a warp, a block and several blocks take
ROW_SHAPES = [(1, 1, 1), (2, 0, 1), (0, 3, 1), (100003, 1, 1), (70001, 2, 1), (65537, 3, 1)]
ROW_SHAPES += [(5000, 7, 1), (5000, 8, 1), (999, 16, 1), (999, 31, 1), (999, 33, 1), (777, 64, 1)]
ROW_SHAPES += [
    (500, 127, 1),
    (500, 128, 1),
    (333, 129, 1),
    (333, 255, 1),
    (100, 256, 1),
    (99, 257, 1),
]
ROW_SHAPES += [(70000, 300, 1), (40, 1024, 1), (40, 1025, 1), (3000, 4096, 1), (3000, 4099, 1)]
ROW_SHAPES += [(7, 16384, 1), (7, 16385, 1), (300, 70001, 1), (3, 1000003, 1), (1, 3000017, 1)]
# Q > 1: columns in packs and alone, few and many of them, rows that blocks share
COLUMN_SHAPES = [(3, 0, 4), (0, 3, 4), (3, 4, 0), (1, 1, 2), (1, 5, 2), (2, 300, 3), (1, 100003, 2)]
COLUMN_SHAPES += [
    (1, 40009, 7),
    (3, 129, 31),
    (3, 129, 32),
    (3, 129, 33),
    (1, 70001, 8),
    (2, 127, 64),
]
COLUMN_SHAPES += [(2, 129, 65), (1, 4099, 128), (1, 777, 513), (1, 300, 1025), (3, 37, 2051)]
COLUMN_SHAPES += [(100003, 3, 2), (40, 7, 1000), (70001, 2, 4), (1, 2, 100003), (1, 65537, 16)]
COLUMN_SHAPES += [(1, 3, 65536), (5, 1000, 129), (1, 8192, 1024), (17, 1, 4096)]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(11)


def numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    return random(shape, dtype, "cuda")


# ---- sizes ----


@each_type
@pytest.mark.parametrize("size", SIZES)
def test_every_size(dtype: torch.dtype, size: int) -> None:
    a, b, dy = (numbers(size, dtype=dtype) for _ in range(3))
    check_addone(ops, a)
    check_relu(ops, a)
    check_mul(ops, a, b)
    check_muladd(ops, a, b)
    check_add_out(ops, a, b)
    check_scale_bias_relu(ops, a, b)
    check_addone_backward(ops, dy)
    check_relu_backward(ops, dy, a)
    check_product_backward(ops, dy, a, b)
    check_reduce_sum(ops, a)
    check_reduce_sum_backward(ops, a)


@each_type
@pytest.mark.parametrize("columns", COLUMNS)
def test_bias_of_every_length(dtype: torch.dtype, columns: int) -> None:
    bias = numbers(columns, dtype=dtype)
    for rows in ROWS:
        x, dy = (numbers(rows, columns, dtype=dtype) for _ in range(2))
        check_scale_bias_relu(ops, x, bias)
        check_scale_bias_relu_backward(ops, dy, x, bias, -1.25)


@each_type
@pytest.mark.parametrize("shape", MATRICES, ids=str)
def test_many_rows_and_long_ones(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, dy = (numbers(*shape, dtype=dtype) for _ in range(2))
    bias = numbers(shape[1], dtype=dtype)
    check_scale_bias_relu(ops, x, bias)
    check_scale_bias_relu_backward(ops, dy, x, bias)


@each_type
@pytest.mark.parametrize("shape", ROW_SHAPES + COLUMN_SHAPES, ids=str)
def test_sums_along_every_kind_of_dim(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    x = numbers(*shape, dtype=dtype)
    check_reduce_sum_dim(ops, x)
    check_reduce_sum_dim_backward(ops, x, numbers(shape[0], shape[2], dtype=dtype))


# ---- memory ----


def placed(count: int, dtype: torch.dtype, first: int) -> tuple[Tensor, Callable[[], None]]:
    """Room for `count` elements that starts `first` elements behind a multiple of 16 bytes, and a look at its
    neighbours."""
    whole = torch.full((count + 64,), 9.0, dtype=dtype, device="cuda")
    before = 32 + first
    room = whole[before : before + count]

    def untouched() -> None:
        around = torch.cat([whole[:before], whole[before + count :]])
        assert bool((around == 9.0).all()), "written beside the result"

    return room, untouched


def moved(x: Tensor, first: int) -> Tensor:
    room, _ = placed(x.numel(), x.dtype, first)
    return room.view(x.shape).copy_(x)


@each_type
@pytest.mark.parametrize("size", [1, 15, 130, 1031, 70001])
def test_inputs_may_start_anywhere(dtype: torch.dtype, size: int) -> None:
    a, b, dy = (numbers(size, dtype=dtype) for _ in range(3))
    for first in (1, 2, 3, 7):
        for x, y in (
            (moved(a, first), b),
            (a, moved(b, first)),
            (moved(a, first), moved(b, first)),
        ):
            check_mul(ops, x, y)
            check_muladd(ops, x, y)
            check_add_out(ops, x, y)
            check_relu_backward(ops, x, y)
            check_product_backward(ops, moved(dy, first), x, y)
        x = moved(a, first)
        check_addone(ops, x)
        check_relu(ops, x)
        check_reduce_sum(ops, x)
        check_addone_backward(ops, x)
        check_reduce_sum_dim(ops, x.view(1, -1, 1))
        check_reduce_sum_dim(ops, x.view(-1, 1, 1))
        check_reduce_sum_dim_backward(ops, x.view(-1, 1, 1).expand(-1, 5, 1), x.view(-1, 1))


@each_type
@pytest.mark.parametrize("shape", [(1, 8), (37, 24), (300, 130), (5, 4100)], ids=str)
def test_matrices_may_start_anywhere(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, dy, bias = (numbers(*s, dtype=dtype) for s in (shape, shape, shape[1:]))
    for first in (1, 3):
        for given in (
            (moved(dy, first), x, bias),
            (dy, moved(x, first), bias),
            (dy, x, moved(bias, first)),
            (moved(dy, first), moved(x, first), moved(bias, first)),
        ):
            check_scale_bias_relu(ops, *given[1:])
            check_scale_bias_relu_backward(ops, *given)
        check_reduce_sum_dim(ops, moved(x, first)[None])
        check_reduce_sum_dim(ops, moved(x, first)[..., None])
        check_reduce_sum_dim_backward(ops, x[None], moved(bias, first)[None])
        check_reduce_sum_dim_backward(ops, x[..., None], moved(x[:, 0], first)[:, None])


@each_type
def test_results_may_start_anywhere_and_nothing_else_is_written(dtype: torch.dtype) -> None:
    for size in (1, 3, 8, 129, 1000, 4097):
        a, b = numbers(size, dtype=dtype), numbers(size, dtype=dtype)
        bias = numbers(1, dtype=dtype)
        calls: list[tuple[Any, tuple[Any, ...]]] = [
            (wick.ops.addone, (a,)),
            (wick.ops.relu, (a,)),
            (wick.ops.mul, (a, b)),
            (wick.ops.muladd, (a, b, 0.5)),
            (wick.ops.relu_backward, (a, b)),
            (wick.ops.addone_backward, (a,)),
            (wick.ops.scale_bias_relu, (a.view(-1, 1), bias, 0.5)),
            (wick.ops.reduce_sum_backward, (bias[0], [size])),
            (wick.ops.reduce_sum_dim_backward, (a.view(-1, 1), [size, 3, 1])),
            (wick.ops.reduce_sum_dim, (a.view(1, 1, -1),)),
            (wick.ops.reduce_sum_dim, (a.view(-1, 1, 1),)),
            (wick.ops.reduce_sum, (a,)),
        ]
        for op, given in calls:
            want = op(*given)
            for first in (0, 1, 5):
                room, untouched = placed(want.numel(), dtype, first)
                op(*given, out=room.view(want.shape))
                assert torch.equal(room.view(want.shape), want), op
                untouched()
        for first in (0, 1):
            da, look_a = placed(size, dtype, first)
            db, look_b = placed(size, dtype, 1 - first)
            want = ops.mul_backward(a, a, b)
            wick.ops.mul_backward(a, a, b, out=(da, db))
            assert torch.equal(da, want[0]) and torch.equal(db, want[1])
            look_a(), look_b()


@each_type
@pytest.mark.parametrize("shape", [(1, 5), (129, 7), (300, 64), (40, 1000)], ids=str)
def test_gradients_of_a_matrix_may_start_anywhere(
    dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    x, dy, bias = (numbers(*s, dtype=dtype) for s in (shape, shape, shape[1:]))
    want = ops.scale_bias_relu_backward(dy, x, bias, 0.5)
    for first in (0, 1, 3):
        dx, look_x = placed(x.numel(), dtype, first)
        dbias, look_bias = placed(bias.numel(), dtype, first)
        wick.ops.scale_bias_relu_backward(dy, x, bias, 0.5, out=(dx.view(shape), dbias))
        assert torch.equal(dx.view(shape), want[0])
        torch.testing.assert_close(dbias, want[1])
        look_x(), look_bias()


@each_type
def test_a_result_may_be_an_input(dtype: torch.dtype) -> None:
    for size in (1, 127, 70001):
        a, b = numbers(size, dtype=dtype), numbers(size, dtype=dtype)
        for op, given in (
            (wick.ops.relu, (a,)),
            (wick.ops.addone, (a,)),
            (wick.ops.mul, (a, b)),
            (wick.ops.muladd, (a, b, 0.5)),
            (wick.ops.relu_backward, (a, b)),
        ):
            want = op(*given)
            for i, x in enumerate(given):
                if not isinstance(x, Tensor):
                    continue
                copies = [v.clone() if isinstance(v, Tensor) else v for v in given]
                op(*copies, out=copies[i])
                assert torch.equal(copies[i], want), (op, i)
        want = (a.to(accumulation(dtype)) + b.to(accumulation(dtype))).to(dtype)
        for first in (True, False):
            x, y = a.clone(), b.clone()
            ops.add_out(x, y, x if first else y)
            assert torch.equal(x if first else y, want)
            assert torch.equal(y if first else x, b if first else a)


@each_type
def test_views_of_every_kind(dtype: torch.dtype) -> None:
    base = numbers(37, 41, dtype=dtype)
    for x in (
        base.t(),
        base[:1].expand(37, 41),
        numbers(1, dtype=dtype)[0].expand(11, 13),
        base[:, ::2],
        base[::3],
        base[3:30, 5:20],
        numbers(3, 37, 41, dtype=dtype).permute(2, 0, 1).flatten(1),
    ):
        other = numbers(*x.shape[::-1], dtype=dtype).t()
        bias = numbers(2 * x.shape[1], dtype=dtype)[::2]
        check_relu(ops, x)
        check_mul(ops, x, other)
        check_add_out(ops, other, x)
        check_reduce_sum(ops, x)
        check_scale_bias_relu(ops, x, bias)
        check_scale_bias_relu_backward(ops, other, x, bias)
        check_scale_bias_relu_backward(ops, x, other, bias[:1].expand(x.shape[1]))
        for view in (x[None], x[..., None], x[:, None], x.expand(2, *x.shape)):
            check_reduce_sum_dim(ops, view)


# ---- values ----


@each_type
def test_special_values(dtype: torch.dtype) -> None:
    v = specials(dtype).cuda()
    a, b = (t.reshape(-1).contiguous() for t in torch.meshgrid(v, v, indexing="ij"))
    check_addone(ops, a)
    check_relu(ops, v)
    check_relu_backward(ops, a, b)
    check_mul(ops, a, b)
    check_add_out(ops, a, b)
    check_product_backward(ops, a, b, v[torch.randint(len(v), a.shape, device="cuda")])
    for c in (0.0, 1.0, float("inf"), float("nan")):
        check_muladd(ops, a, b, c)
    for scale in (1.0, 0.5, -1.0, 0.0):
        check_scale_bias_relu(ops, a.view(len(v), -1), v, scale)


@each_type
def test_the_cpu_and_the_gpu_agree_to_the_bit(dtype: torch.dtype) -> None:
    a, b = random((1000, 33), dtype), random((1000, 33), dtype)
    bias = random(33, dtype)
    for call in (
        lambda x, y, z: ops.addone(x),
        lambda x, y, z: ops.mul(x, y),
        lambda x, y, z: ops.muladd(x, y, 0.3),
        lambda x, y, z: ops.scale_bias_relu(x, z, 0.3),
        lambda x, y, z: ops.scale_bias_relu_backward(x, y, z, 0.3)[0],
        lambda x, y, z: ops.mul_backward(x, y, x)[0],
    ):
        assert torch.equal(call(a, b, bias), call(a.cuda(), b.cuda(), bias.cuda()).cpu())


@each_type
@pytest.mark.parametrize("size", [1, 65, 2049, 70001, 2000003])
def test_sums_of_infinities_and_nan_are_torchs(dtype: torch.dtype, size: int) -> None:
    inf, nan = float("inf"), float("nan")
    for values in ([inf], [-inf], [nan], [inf, -inf], [nan, inf]):
        for where in (0, size // 2, size - len(values)):
            if where < 0 or where + len(values) > size:
                continue
            x = torch.ones(size, dtype=dtype, device="cuda")
            x[where : where + len(values)] = torch.tensor(values, dtype=dtype)
            want = f64(x).sum().nan_to_num(5.0)
            results = [ops.reduce_sum(x), ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0]]
            if size < 100_000:
                columns = x.view(1, -1, 1).expand(1, size, 40).contiguous()
                results += list(ops.reduce_sum_dim(columns)[0])
            assert all(bool(f64(got).nan_to_num(5.0) == want) for got in results)


@each_type
def test_nan_and_infinities_reach_their_own_column_alone(dtype: torch.dtype) -> None:
    for shape in ((1000, 24), (3000, 33)):
        x, dy = (numbers(*shape, dtype=dtype) for _ in range(2))
        bias = numbers(shape[1], dtype=dtype)
        x[5, 3], dy[7, 4], dy[9, 6] = float("nan"), float("nan"), float("inf")
        x[7, 4] = x[9, 6] = 10.0
        dx, dbias = ops.scale_bias_relu_backward(dy, x, bias, 1.0)
        want = torch.where(x + bias <= 0, torch.zeros_like(dy), dy)
        assert torch.equal(dx.isnan(), want.isnan()) and torch.equal(dx.isinf(), want.isinf())
        assert dbias.isnan().nonzero().flatten().tolist() == [4]
        assert dbias.isinf().nonzero().flatten().tolist() == [6]
        sums = ops.reduce_sum_dim(x[None])[0]
        assert sums.isnan().nonzero().flatten().tolist() == [3]


@each_type
def test_empty_sums_are_zero(dtype: torch.dtype) -> None:
    empty = torch.empty(0, 3, dtype=dtype, device="cuda")
    total = ops.reduce_sum(empty)
    assert total.shape == () and total.item() == 0 and not total.signbit()
    for shape in ((3, 0, 4), (5, 0, 1), (1, 0, 70000)):
        y = ops.reduce_sum_dim(torch.empty(shape, dtype=dtype, device="cuda"))
        assert y.shape == (shape[0], shape[2]) and bool((y == 0).all())
    scale = torch.ones((), dtype=accumulation(dtype), device="cuda")
    for rows, columns in ((0, 3), (3, 0), (0, 0)):
        x = torch.empty(rows, columns, dtype=dtype, device="cuda")
        bias = torch.ones(columns, dtype=dtype, device="cuda")
        dx, dbias, dscale = ops.scale_bias_relu_learned_backward(x, x, bias, scale)
        assert dx.shape == x.shape and dbias.tolist() == [0.0] * columns and dscale.item() == 0


@each_type
def test_long_sums_stay_accurate(dtype: torch.dtype) -> None:
    """An f32 that took these one by one would stop growing at 2^24; f16 and bf16 much earlier."""
    size = (1 << 26) + (1 << 22)
    x = torch.ones(size, dtype=dtype, device="cuda")
    want = torch.tensor(float(size), dtype=torch.float64, device="cuda").to(dtype)
    assert torch.equal(ops.reduce_sum(x), want)
    assert torch.equal(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0], want)
    columns = ops.reduce_sum_dim(x.view(1, -1, 4))[0]
    quarter = torch.tensor(size / 4.0, dtype=torch.float64, device="cuda").to(dtype)
    assert torch.equal(columns, quarter.expand(4))
    few = x[: 1 << 20].view(-1, 4)
    dbias = ops.scale_bias_relu_backward(few, few, torch.ones_like(few[0]), 1.0)[1]
    want = torch.tensor(float(1 << 18), dtype=torch.float64, device="cuda").to(dtype)
    assert torch.equal(dbias, want.expand(4))


def test_sums_lose_no_more_than_a_thread_does() -> None:
    """The error must not grow with the length."""
    x = torch.rand(30_000_017, device="cuda")
    want = f64(x).sum()
    tolerance = want * unit(torch.float32) * 16
    assert (f64(ops.reduce_sum(x)) - want).abs() <= tolerance
    assert (f64(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0]) - want).abs() <= tolerance
    columns = x[:30_000_000].view(1, -1, 6)
    off = (f64(ops.reduce_sum_dim(columns)) - f64(columns).sum(1)).abs()
    assert bool((off <= f64(columns).sum(1) * unit(torch.float32) * 16).all())


# ---- sums that blocks share ----

Sums = Callable[[], list[Tensor]]


def shared_sums(dtype: torch.dtype) -> Sums:
    """Calls in which several blocks add up one number, each in another way."""
    flat = numbers(1_500_007, dtype=dtype)
    matrix = flat[: 1500 * 1000].view(1500, 1000)
    narrow = flat[: 300_000 * 5].view(-1, 5)
    bias, by = numbers(1000, dtype=dtype), torch.tensor(0.7, dtype=accumulation(dtype)).cuda()

    def call() -> list[Tensor]:
        results = [
            ops.reduce_sum(flat),
            ops.reduce_sum_dim(flat.view(1, -1, 1)),
            ops.reduce_sum_dim(matrix[:3].reshape(3, -1, 1)),
            ops.reduce_sum_dim(matrix[None]),
            ops.reduce_sum_dim(narrow[None]),
        ]
        results += ops.scale_bias_relu_backward(matrix, matrix, bias, 0.7)
        results += ops.scale_bias_relu_learned_backward(narrow, narrow, bias[:5], by)
        return results + list(ops.scale_bias_relu_learned_backward(matrix, matrix, bias, by))

    return call


@each_type
def test_the_same_bits_whatever_was_in_memory(dtype: torch.dtype) -> None:
    call = shared_sums(dtype)
    first = call()
    for value in (0, -1, 0x7FF8000000000000, 1):
        junk = [
            torch.full((size,), value, dtype=torch.int64, device="cuda")
            for size in (2048, 4096, 1 << 15, 1 << 17, 134144, 1 << 18)
            for _ in range(2)
        ]
        del junk  # scratch memory is taken from what this leaves
        for got, want in zip(call(), first, strict=True):
            assert torch.equal(got, want)
    junk = torch.empty(1 << 20, dtype=torch.int64, device="cuda").random_()
    del junk
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(call(), first, strict=True))


def test_sums_on_several_streams_at_once_do_not_meet() -> None:
    call = shared_sums(torch.float32)
    first = call()
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(6)]
    found: list[list[Tensor]] = []
    for _ in range(10):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(call())
    torch.cuda.synchronize()
    for results in found:
        assert all(torch.equal(a, b) for a, b in zip(results, first, strict=True))


def test_a_captured_sum_is_right_at_every_replay() -> None:
    """Memory of a graph is used by its kernels again and again, and by the others in the same graph."""
    x = torch.zeros(1_000_000, device="cuda")
    matrix, bias = x.view(2000, 500), torch.zeros(500, device="cuda")
    by = torch.ones((), device="cuda")

    def step() -> list[Tensor]:
        sums = [
            ops.reduce_sum(x),
            ops.reduce_sum_dim(matrix[None]),
            ops.reduce_sum_dim(x.view(1, -1, 1)),
        ]
        sums += ops.scale_bias_relu_learned_backward(matrix, matrix, bias, by)
        return sums + [ops.reduce_sum(x * 2)]

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    for _ in range(10):
        x.copy_(torch.randn_like(x))
        graph.replay()
        got = [r.clone() for r in results]
        assert all(torch.equal(a, b) for a, b in zip(got, step(), strict=True))
    torch.testing.assert_close(got[0], x.sum(), rtol=0, atol=0.05)


@each_type
def test_a_side_stream_is_waited_for(dtype: torch.dtype) -> None:
    x = torch.zeros(3000, 700, dtype=dtype, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(1.0)
        results = [ops.reduce_sum_dim(x[None]), ops.relu(x), ops.addone(x) - 1]
    stream.synchronize()
    assert bool((results[0] == torch.tensor(3000.0, dtype=dtype)).all())
    assert bool((results[1] == 1).all()) and bool((results[2] == 1).all())


# ---- more than 2^31 elements ----

LARGE = (1 << 31) + 4099


def large(value: float) -> Tensor:
    return torch.full((LARGE,), value, dtype=torch.float16, device="cuda")


def same_everywhere(y: Tensor, value: float) -> bool:
    """Without the memory that comparing would take."""
    low, high = torch.aminmax(y)
    return low.item() == value == high.item()


@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "misaligned"])
def test_large_arrays(first: int) -> None:
    x = large(2.0)[first:]
    x[-1], x[1 << 31] = -3.0, 5.0
    y = ops.relu(x)
    assert y[-1] == 0 and y[1 << 31] == 5 and y[-2] == 2 and y[0] == 2
    y = ops.relu_backward(x, x)
    assert y[-1] == 0 and y[1 << 31] == 5 and y[-2] == 2
    y = ops.muladd(x, x, 1.0)
    assert y[-1] == 10 and y[1 << 31] == 26 and y[-2] == 5
    da, db = ops.mul_backward(x, x, y)
    assert da[-1] == -30 and db[1 << 31] == 25 and db[0] == 4
    del y, da, db
    ops.add_out(x, x, x)
    assert x[-1] == -6 and x[1 << 31] == 10 and x[-2] == 4


@pytest.mark.parametrize("columns", [1, 3, 8, 4096])
def test_large_matrices(columns: int) -> None:
    x = large(1.0)[: LARGE // columns * columns].view(-1, columns)
    bias = torch.zeros(columns, dtype=torch.float16, device="cuda")
    x[-1, -1] = -1.0
    y = ops.scale_bias_relu(x, bias, 2.0)
    assert y[-1, -1] == 0 and y[0, 0] == 2 and y[-2, -1] == 2
    del y
    dx, dbias = ops.scale_bias_relu_backward(x, x, bias, 2.0)
    assert dx[-1, -1] == 0 and dx[-2, -1] == 2 and dx[0, 0] == 2
    want = torch.full((columns,), float(x.shape[0]), dtype=torch.float64)
    want[-1] -= 1
    assert torch.equal(dbias.cpu(), want.to(torch.float16))


def test_large_sums() -> None:
    x = torch.ones(LARGE, dtype=torch.bfloat16, device="cuda")

    def rounded(value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.bfloat16)

    assert torch.equal(ops.reduce_sum(x[1:]).cpu(), rounded(float(LARGE - 1)))
    assert torch.equal(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0].cpu(), rounded(float(LARGE)))
    for n, q in ((1, 1), (LARGE // 3, 3), (LARGE // 4096, 4096), (3, LARGE // 3)):
        view = x[: LARGE // (n * q) * n * q].view(-1, n, q)
        y = ops.reduce_sum_dim(view)
        assert same_everywhere(y, rounded(float(n)).item()), (n, q)


@pytest.mark.parametrize("shape", [(5, -1, 1), (1, -1, 64), (-1, 2, 1), (1, -1, 3)], ids=str)
def test_large_gradients_of_sums(shape: tuple[int, int, int]) -> None:
    p, n, q = shape
    n = LARGE // (p * q) if n < 0 else n
    p = LARGE // (n * q) if p < 0 else p
    dy = torch.arange(p * q, device="cuda").remainder(100).to(torch.float16).view(p, q)
    dx = ops.reduce_sum_dim_backward(dy, [p, n, q])
    for row in {0, n // 2, n - 1}:
        assert torch.equal(dx[:, row], dy)
    del dx
    assert same_everywhere(ops.reduce_sum_backward(dy[0, 0] + 3, [LARGE]), 3.0)
