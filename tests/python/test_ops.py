"""The shipped elementwise and reduction operators on the CPU against what they promise (promises.py).

Every case runs by both doors, wick.ops.NAME and torch.ops.wick.NAME.
"""

import os

import pytest
import torch
from promises import (
    DTYPES,
    accumulation,
    check_add_out,
    check_addone,
    check_mul,
    check_muladd,
    check_reduce_sum,
    check_reduce_sum_dim,
    check_relu,
    check_scale_bias_relu,
    f64,
    random,
    specials,
    unit,
)

import wick

SIZES = [0, 1, 2, 3, 7, 13, 31, 63, 64, 65, 127, 128, 129, 255, 257, 1009, 4095, 4097, 65537]
SHAPES = [(), (0,), (1,), (5, 0, 3), (3, 5), (2, 3, 4, 5), (1, 1, 7), (127, 129)]
LARGE = os.environ.get("WICK_TEST_LARGE") == "1"


@pytest.fixture(params=["wick.ops", "torch.ops.wick"])
def ops(request):
    return wick.ops if request.param == "wick.ops" else torch.ops.wick


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(20)


@pytest.fixture
def threads():
    """Sets the number of threads, and puts it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


UNARY = [check_addone, check_relu, check_reduce_sum]
BINARY = [check_mul, check_muladd, check_add_out]


# ---- sizes and shapes ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_every_size(ops, dtype, size):
    a, b = random(size, dtype), random(size, dtype)
    for check in UNARY:
        check(ops, a)
    for check in BINARY:
        check(ops, a, b)
    check_scale_bias_relu(ops, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(ops, dtype, shape):
    a, b = random(shape, dtype), random(shape, dtype)
    for check in UNARY:
        check(ops, a)
    for check in BINARY:
        check(ops, a, b)
    if shape:
        check_scale_bias_relu(ops, a, random(shape[-1], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 2, 3, 17, 63, 64, 65, 255, 256, 257, 513, 1025])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 131])
def test_bias_of_every_length(ops, dtype, columns, rows):
    check_scale_bias_relu(ops, random((rows, columns), dtype), random(columns, dtype))
    check_scale_bias_relu(ops, random((2, rows, columns), dtype), random(columns, dtype), -2.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (3, 0, 4), (0, 3, 4), (3, 4, 0), (2, 0, 1), (4, 1, 1), (5, 7, 1), (3, 63, 1)]
    + [(3, 64, 1), (2, 65, 1), (7, 2049, 1), (600, 129, 1), (1, 100003, 1), (2, 70001, 1)]
    + [(1, 5, 2), (2, 300, 3), (3, 129, 31), (3, 129, 32), (3, 129, 33), (1, 40009, 7)]
    + [(2, 127, 64), (2, 129, 65), (1, 777, 513), (1, 300, 1025), (3, 37, 2051), (40, 7, 1000)],
)
def test_sum_over_every_kind_of_dim(ops, dtype, shape):
    check_reduce_sum_dim(ops, random(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_written_past_the_caches(ops, dtype):
    """Results of 32 MiB and more take another way to memory; misaligned ones yet another."""
    size = (33 << 20) // dtype.itemsize + 5
    a = torch.randn(size, dtype=torch.float32).to(dtype)
    want = torch.relu(a)
    assert torch.equal(ops.relu(a), want)
    assert torch.equal(ops.relu(a[1:]), want[1:])
    exact = accumulation(dtype)
    assert torch.equal(ops.addone(a), (a.to(exact) + 1).to(dtype))
    assert torch.equal(ops.mul(a, a), (a.to(exact) * a.to(exact)).to(dtype))
    assert torch.equal(ops.muladd(a, a, 0.5), (a.to(exact) * a.to(exact) + 0.5).to(dtype))
    out = torch.empty(size + 1, dtype=dtype)
    ops.add_out(a, want, out[1:])
    assert torch.equal(out[1:], (a.to(exact) + want.to(exact)).to(dtype))
    for columns in (3, 1001, 4096):
        x = a[: size // columns * columns].view(-1, columns)
        bias = random(columns, dtype)
        want_x = torch.relu(x.to(exact) * 0.75 + bias.to(exact)).to(dtype)
        assert torch.equal(ops.scale_bias_relu(x, bias, 0.75), want_x)


# ---- layouts ----


def layouts(dtype):
    base = random((37, 41), dtype)
    yield "transposed", base.t()
    yield "expanded", base[:1].expand(37, 41)
    yield "expanded from 0-d", random((), dtype).expand(11, 13)
    yield "every other column", base[:, ::2]
    yield "every third row", base[::3]
    yield "inner part", base[3:30, 5:20]
    yield "misaligned", random(37 * 41 + 1, dtype)[1:].view(37, 41)
    yield "permuted", random((3, 37, 41), dtype).permute(2, 0, 1).flatten(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout(ops, dtype):
    for _, x in layouts(dtype):
        other = random(x.shape[::-1], dtype).t()
        for check in UNARY:
            check(ops, x)
        for check in BINARY:
            check(ops, x, other)
            check(ops, other, x)
        check_scale_bias_relu(ops, x, random(2 * x.shape[1], dtype)[::2])
        check_scale_bias_relu(ops, x, random(1, dtype).expand(x.shape[1]))
        for view in (x[None], x[..., None], x[:, None], x.expand(2, *x.shape)):
            check_reduce_sum_dim(ops, view)


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_are_left_alone(ops, dtype):
    a, b, bias = random((33, 65), dtype), random((33, 65), dtype), random(65, dtype)
    kept = [t.clone() for t in (a, b, bias)]
    versions = [t._version for t in (a, b, bias)]
    results = [ops.addone(a), ops.relu(a), ops.mul(a, b), ops.muladd(a, b, 2.0)]
    results += [ops.scale_bias_relu(a, bias, 2.0), ops.reduce_sum(a), ops.reduce_sum_dim(a[None])]
    out = torch.empty_like(a)
    ops.add_out(a, b, out)
    results.append(out)
    for t, copy, version in zip((a, b, bias), kept, versions):
        assert torch.equal(t, copy)
        assert t._version == version
        assert all(r.data_ptr() != t.data_ptr() for r in results)


def test_scale_is_1_unless_said(ops):
    x, bias = random((3, 5), torch.float32), random(5, torch.float32)
    assert torch.equal(ops.scale_bias_relu(x, bias), ops.scale_bias_relu(x, bias, 1.0))
    assert torch.equal(ops.scale_bias_relu(x, bias, scale=3.0), ops.scale_bias_relu(x, bias, 3.0))


# ---- special values ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(ops, dtype):
    v = specials(dtype)
    a, b = (t.reshape(-1).contiguous() for t in torch.meshgrid(v, v, indexing="ij"))
    check_addone(ops, a)
    check_relu(ops, v)
    check_mul(ops, a, b)
    check_add_out(ops, a, b)
    for c in (0.0, 1.0, float("inf"), float("nan")):
        check_muladd(ops, a, b, c)
    for scale in (1.0, 0.5, -1.0, 0.0):
        check_scale_bias_relu(ops, a.view(len(v), -1), v, scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_f16_pattern_passes_through(ops, dtype):
    patterns = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    x = patterns.view(torch.float16).to(torch.float64).to(dtype)
    check_relu(ops, x)
    check_addone(ops, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu_keeps_nan_and_the_sign_of_zero_as_torch_does(ops, dtype):
    for size in (1, 70, 70001):
        zeros = torch.full((size,), -0.0, dtype=dtype)
        assert torch.equal(ops.relu(zeros).signbit(), torch.relu(zeros).signbit())
        assert ops.relu(torch.full((size,), float("nan"), dtype=dtype)).isnan().all()
    bias = torch.tensor([float("nan"), -1.0], dtype=dtype)
    assert ops.scale_bias_relu(torch.zeros(9, 2, dtype=dtype), bias)[:, 0].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 2047, 2049, 70001])
def test_sums_of_infinities_and_nan_are_torchs(ops, dtype, size):
    inf, nan = float("inf"), float("nan")
    for values in ([inf], [-inf], [nan], [inf, inf], [inf, -inf], [nan, inf]):
        for where in (0, size // 2, size - len(values)):
            if where < 0 or where + len(values) > size:
                continue
            x = torch.ones(size, dtype=dtype)
            x[where : where + len(values)] = torch.tensor(values, dtype=dtype)
            want = f64(x).sum()
            results = [ops.reduce_sum(x), ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0]]
            columns = x.view(1, -1, 1).expand(1, size, 40).contiguous()
            results += list(ops.reduce_sum_dim(columns)[0])
            for got in results:
                assert torch.equal(got.to(torch.float64).nan_to_num(5.0), want.nan_to_num(5.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_sums_are_zero(ops, dtype):
    got = ops.reduce_sum(torch.empty(0, 3, dtype=dtype))
    assert got.shape == () and got.item() == 0 and not got.signbit()
    got = ops.reduce_sum_dim(torch.empty(3, 0, 4, dtype=dtype))
    assert got.shape == (3, 4) and (got == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sums_stay_accurate(ops, dtype):
    """An f32 that took these one by one would stop growing at 2^24; f16 and bf16 much earlier."""
    size = (1 << 24) + (1 << 22)
    x = torch.ones((), dtype=dtype).expand(size).contiguous()
    want = torch.tensor(float(size), dtype=torch.float64).to(dtype)
    assert torch.equal(ops.reduce_sum(x), want)
    assert torch.equal(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0], want)
    columns = ops.reduce_sum_dim(x.view(1, -1, 4))[0]
    assert torch.equal(columns, torch.tensor([size / 4.0] * 4, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_lose_no_more_than_a_block_does(ops, dtype):
    """The error must not grow with the length: 64 units cover a block's lanes and their folding."""
    x = torch.rand(3_000_017, dtype=dtype)
    want = f64(x).sum() if dtype == torch.float32 else None
    if want is None:
        whole = (x * 2.0**53).to(torch.int64)  # exact: rand's doubles are multiples of 2^-53
        high, low = (whole >> 32).sum().item(), (whole & 0xFFFFFFFF).sum().item()
        want = torch.tensor(((high << 32) + low) / 2**53, dtype=torch.float64)
    tolerance = want * unit(dtype) * (64 if dtype == torch.float32 else 600)
    assert (f64(ops.reduce_sum(x)) - want).abs() <= tolerance
    assert (f64(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0]) - want).abs() <= tolerance


# ---- the same bits every time ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_the_number_of_threads(ops, dtype, threads):
    flat = random(1_000_003, dtype)
    shapes = [(1, 1_000_003, 1), (3, 300_001, 1), (1, 50_001, 19), (1, 1999, 500), (5, 100, 2000)]
    blocks = [flat[: p * n * q].view(p, n, q) for p, n, q in shapes]
    bias = random(997, dtype)

    def everything():
        out = torch.empty_like(flat)
        ops.add_out(flat, flat, out)
        yield from (ops.reduce_sum(flat), ops.addone(flat), ops.relu(flat), out)
        yield ops.mul(flat, flat)
        yield ops.muladd(flat, flat, 0.1)
        yield ops.scale_bias_relu(flat[: 997 * 1000].view(1000, 997), bias, 0.3)
        yield from (ops.reduce_sum_dim(b) for b in blocks)

    threads(1)
    one = list(everything())
    for count in (2, 2, 3, 1):
        threads(count)
        for first, again in zip(one, everything()):
            assert torch.equal(first, again)


# ---- add_out: in place ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_out_writes_where_it_is_told(ops, dtype):
    a, b = random((5, 7), dtype), random((5, 7), dtype)
    want = (a.to(accumulation(dtype)) + b.to(accumulation(dtype))).to(dtype)
    room = torch.full((5, 7), 9.0, dtype=dtype)
    address, version = room.data_ptr(), room._version
    ops.add_out(a, b, room)
    assert torch.equal(room, want)
    assert room.data_ptr() == address and room._version > version


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_out_fills_a_tensor_that_is_not_contiguous(ops, dtype):
    a, b = random((5, 7), dtype), random((5, 7), dtype)
    want = (a.to(accumulation(dtype)) + b.to(accumulation(dtype))).to(dtype)
    around = torch.full((9, 20), 9.0, dtype=dtype)
    inner = around[2:7, 3:17:2]
    version = inner._version
    ops.add_out(a, b, inner)
    assert torch.equal(inner, want) and inner._version > version
    inner.fill_(9.0)
    assert (around == 9.0).all()
    turned = torch.full((7, 5), 9.0, dtype=dtype)
    ops.add_out(a, b, turned.t())
    assert torch.equal(turned.t(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 65, 100_003])
def test_add_out_may_write_over_an_input(ops, dtype, size):
    a, b = random(size, dtype), random(size, dtype)
    want = (a.to(accumulation(dtype)) + b.to(accumulation(dtype))).to(dtype)
    for first in (True, False):
        x, y = a.clone(), b.clone()
        ops.add_out(x, y, x if first else y)
        assert torch.equal(x if first else y, want)
        assert torch.equal(y if first else x, b if first else a)
    x = a.clone()
    ops.add_out(x, x, x)
    assert torch.equal(x, (a.to(accumulation(dtype)) * 2).to(dtype))


def test_add_out_refuses_a_part_of_an_input(ops):
    base = random(100, torch.float32)
    kept = base.clone()
    with pytest.raises(RuntimeError, match="add_out.*out|out.*add_out"):
        ops.add_out(base[:50], random(50, torch.float32), base[1:51])
    with pytest.raises(RuntimeError, match="add_out.*out|out.*add_out"):
        ops.add_out(random(50, torch.float32), base[1:51], base[:50])
    assert torch.equal(base, kept)


def test_add_out_refuses_an_output_that_overlaps_itself(ops):
    with pytest.raises(RuntimeError, match="add_out"):
        ops.add_out(torch.ones(5), torch.ones(5), torch.zeros(1).expand(5))


# ---- refusals ----


def refusals():
    f = torch.ones
    yield "mul", (f(3), f(4)), "b"
    yield "mul", (f(2, 3), f(3)), "b"
    yield "mul", (f(3), f(3, dtype=torch.float64)), "b"
    yield "muladd", (f(3), f(2), 1.0), "b"
    yield "relu", (f(3, dtype=torch.int32),), "x"
    yield "addone", (f(3, dtype=torch.bool),), "x"
    yield "scale_bias_relu", (f(3, 4), f(3)), "bias"
    yield "scale_bias_relu", (f(3, 4), f(1, 4)), "bias"
    yield "scale_bias_relu", (f(()), f(1)), "x"
    yield "reduce_sum_dim", (f(3, 4),), "x"
    yield "add_out", (f(3), f(3), f(4)), "out"
    yield "add_out", (f(3), f(3), f(3, dtype=torch.float16)), "out"


@pytest.mark.parametrize("name, arguments, argument", list(refusals()))
def test_wrong_inputs_are_refused_by_name(ops, name, arguments, argument):
    with pytest.raises(RuntimeError) as error:
        getattr(ops, name)(*arguments)
    assert name in str(error.value) and argument in str(error.value)


# ---- more than 2^31 elements ----


@pytest.mark.skipif(not LARGE, reason="needs 9 GB of memory: set WICK_TEST_LARGE=1")
def test_more_than_2_to_the_31_elements(ops):
    size = (1 << 31) + 77
    x = torch.ones(size, dtype=torch.bfloat16)
    x[-1] = -3.0
    x[1 << 31] = 2.0
    y = ops.relu(x)
    assert y[-1] == 0 and y[1 << 31] == 2 and y[-2] == 1
    del y
    y = ops.addone(x)
    assert y[-1] == -2 and y[1 << 31] == 3 and y[0] == 2
    del y
    want = torch.tensor(float(size) - 3.0, dtype=torch.float64).to(torch.bfloat16)
    assert torch.equal(ops.reduce_sum(x), want)
    assert torch.equal(ops.reduce_sum_dim(x.view(1, -1, 1))[0, 0], want)
    y = ops.scale_bias_relu(x.view(-1, 1), torch.ones(1, dtype=torch.bfloat16), 2.0)
    assert y[-1, 0] == 0 and y[1 << 31, 0] == 5 and y[0, 0] == 3


@pytest.mark.parametrize("shift", [0, 1])
def test_add_out_refuses_partial_overlap(ops, shift):
    base = torch.arange(10.0)
    a, out = (base[:9], base[1:]) if shift else (base[1:], base[:9])
    with pytest.raises(
        RuntimeError, match="add_out: out is written in place, but partly overlaps a"
    ):
        ops.add_out(a, torch.ones(9), out)
    assert torch.equal(base, torch.arange(10.0))
