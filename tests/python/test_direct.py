"""Every feature of a signature, called by every door: what goes in reaches C, what C returns comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support import ADD, Made

import wick

Maker = Callable[..., Made]

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


# ---- tensors ----


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3), (2, 0, 3), (2, 3, 4, 5)])
def test_any_number_of_leading_dims(add: Made, door: str, dtype: torch.dtype, shape) -> None:
    x = torch.randn(shape).to(dtype)
    y = add.by(door)(x, 2.0)
    assert y.dtype == dtype and y.shape == x.shape and y.is_contiguous()
    assert torch.equal(y, (x.float() + 2.0 if dtype != torch.float64 else x + 2.0).to(dtype))


@pytest.mark.parametrize(
    "view",
    [
        lambda: torch.arange(12.0).reshape(3, 4).t(),
        lambda: torch.arange(12.0)[::3],
        lambda: torch.arange(4.0).expand(3, 4),
        lambda: torch.arange(12.0)[5:],
        lambda: torch.zeros(3).as_strided((2, 2), (0, 0)),
        lambda: torch.arange(16.0).reshape(1, 2, 2, 4).to(memory_format=torch.channels_last),
    ],
)
def test_inputs_arrive_contiguous_whatever_they_were(add: Made, door: str, view) -> None:
    x = view()
    before = x.clone()
    assert torch.equal(add.by(door)(x), x + 1)
    assert torch.equal(x, before)


def test_results_are_new_memory(add: Made, door: str) -> None:
    x = torch.zeros(4)
    y, z = add.by(door)(x), add.by(door)(x)
    assert len({x.data_ptr(), y.data_ptr(), z.data_ptr()}) == 3
    assert type(y) is torch.Tensor and not y.requires_grad


def test_keywords_in_any_order(add: Made, door: str) -> None:
    assert add.by(door)(by=3.0, x=torch.zeros(2)).tolist() == [3.0, 3.0]
    assert add.by(door)(torch.zeros(2), by=4.0).tolist() == [4.0, 4.0]


def test_parameters_and_inference_tensors(add: Made, door: str) -> None:
    with torch.no_grad():
        assert add.by(door)(torch.nn.Parameter(torch.zeros(2))).tolist() == [1.0, 1.0]
    with torch.inference_mode():
        y = add.by(door)(torch.zeros(2))
        assert y.tolist() == [1.0, 1.0] and y.is_inference()
    assert add.by(door)(y).tolist() == [2.0, 2.0]


def test_meta_tensors_have_shapes_and_no_data(add: Made, door: str) -> None:
    y = add.by(door)(torch.empty(2, 5, device="meta", dtype=torch.float16))
    assert y.device.type == "meta" and y.shape == (2, 5) and y.dtype == torch.float16


def test_a_zero_dimensional_tensor(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N], s: f32[] -> y: f32[N], total: f32[]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *s, float *y, float *total, int64_t N)
{
    (void)ctx;
    *total = 0;
    for (int64_t i = 0; i < N; i++) {
        y[i] = x[i] * *s;
        *total += y[i];
    }
    return WICK_OK;
}
"""
    )
    y, total = op.by(door)(torch.arange(4.0), torch.tensor(2.0))
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert total.shape == () and total.item() == 12.0


# ---- numbers and words ----


@pytest.fixture(scope="module")
def numbers(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "k: int = -1, f: float = 0.5, b: bool = true -> i: int, g: float, c: bool");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t k, double f, bool b, int64_t *i, double *g, bool *c)
{
    (void)ctx;
    *i = k, *g = f, *c = b;
    return WICK_OK;
}
"""
    )


def test_defaults_of_numbers(numbers: Made, door: str) -> None:
    assert numbers.by(door)() == (-1, 0.5, True)


def test_results_are_plain_numbers(numbers: Made, door: str) -> None:
    assert [type(v) for v in numbers.by(door)(1, 2.0, False)] == [int, float, bool]


@pytest.mark.parametrize(
    "given, seen",
    [
        (7, 7),
        (True, 1),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (np.int64(5), 5),
        (np.int32(-5), -5),
        (torch.tensor(9), 9),
        (torch.tensor(9, dtype=torch.int8), 9),
    ],
)
def test_what_an_int_argument_takes(numbers: Made, door: str, given, seen) -> None:
    got = numbers.by(door)(given)[0]
    assert got == seen and type(got) is int


@pytest.mark.parametrize(
    "given, seen",
    [
        (1.25, 1.25),
        (3, 3.0),
        (True, 1.0),
        (float("inf"), float("inf")),
        (np.float64(2.5), 2.5),
        (np.float32(2.5), 2.5),
        (torch.tensor(2.5), 2.5),
        (torch.tensor(2.5, dtype=torch.float64), 2.5),
    ],
)
def test_what_a_float_argument_takes(numbers: Made, door: str, given, seen) -> None:
    got = numbers.by(door)(f=given)[1]
    assert got == seen and type(got) is float


def test_nan_reaches_c_as_nan(numbers: Made, door: str) -> None:
    got = numbers.by(door)(f=float("nan"))[1]
    assert got != got


@pytest.mark.parametrize("given", [True, False])
def test_what_a_bool_argument_takes(numbers: Made, door: str, given: bool) -> None:
    assert numbers.by(door)(b=given)[2] is given


@pytest.fixture(scope="module")
def words(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "text: str = 'wick', mode: 'sum'|'mean'|'none' = 'mean' -> length: int, number: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const char *text, int mode, int64_t *length, int64_t *number)
{
    (void)ctx;
    *length = (int64_t)strlen(text);
    *number = mode == WICK_mode_sum ? 100 : mode == WICK_mode_mean ? 200 : mode == WICK_mode_none ? 300 : -1;
    return WICK_OK;
}
"""
    )


def test_strings_and_choices(words: Made, door: str) -> None:
    call = words.by(door)
    assert call() == (4, 200)
    assert call("", "sum") == (0, 100)
    assert call("äöü", mode="none") == (6, 300)
    assert call("x" * 5000)[0] == 5000


def test_addone_of_a_plain_number(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: int -> y: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t x, int64_t *y)
{
    (void)ctx;
    *y = x + 1;
    return WICK_OK;
}
"""
    )
    assert op.by(door)(1) == 2


def test_dims_named_after_an_int_without_any_tensor(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "k: int, start: float = 0.0 -> y: f32[k]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t k, double start, float *y)
{
    (void)ctx;
    for (int64_t i = 0; i < k; i++)
        y[i] = (float)(start + (double)i);
    return WICK_OK;
}
"""
    )
    y = op.by(door)(4, 1.0)
    assert (
        y.tolist() == [1.0, 2.0, 3.0, 4.0] and y.device.type == "cpu" and y.dtype == torch.float32
    )
    assert op.by(door)(0).shape == (0,)
    assert op.by(door)(torch.tensor(3)).shape == (3,)


# ---- optional tensors ----


@pytest.fixture(scope="module")
def optional(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "x: f32[N], bias?: f32[N], by: float = 1.0 -> y: f32[N], mean?: f32[], count: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *bias, double by, float *y, float *mean,
                             int64_t *count, int64_t N)
{
    float sum = 0;
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        y[i] = x[i] * (float)by + (bias ? bias[i] : 0);
        sum += y[i];
    }
    if (mean) *mean = sum / (float)N;
    *count = (bias != NULL) + 2 * (mean != NULL);
    return WICK_OK;
}
"""
    )


def test_an_optional_tensor_is_null_in_c_when_absent(optional: Made, door: str) -> None:
    call, x, bias = optional.by(door), torch.arange(4.0), torch.ones(4)
    assert call(x)[2] == 2
    assert call(x, None)[2] == 2
    assert call(x, None, 2.0)[0].tolist() == [0.0, 2.0, 4.0, 6.0]
    y, mean, count = call(x, bias)
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0] and mean.item() == 2.5 and count == 3
    assert call(x, by=3.0, bias=bias)[0].tolist() == [1.0, 4.0, 7.0, 10.0]


def test_an_empty_optional_tensor_is_present(optional: Made, door: str) -> None:
    assert optional.by(door)(torch.empty(0), torch.empty(0))[2] == 3


def test_an_unwanted_output_is_none_and_null_in_c(optional: Made, door: str) -> None:
    call, x = optional.by(door), torch.arange(4.0)
    y, mean, count = call(x, want_mean=False)
    assert mean is None and count == 0 and y.tolist() == x.tolist()
    y, mean, count = call(x, want_mean=True)
    assert mean.shape == () and count == 2


# ---- shapes, several outputs, several types ----


def test_shape_arguments_are_sizes_alone(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "dy: f32[C], x: shape[*N, C] -> dx: f32[*N, C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *dy, float *dx, int64_t C, int64_t N)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            dx[n * C + c] = dy[c];
    return WICK_OK;
}
"""
    )
    dy = torch.arange(3.0)
    for shape in [(2, 3), [2, 3], torch.Size([2, 3]), (torch.tensor(2), 3), (np.int64(2), 3)]:
        assert op.by(door)(dy, shape).tolist() == [[0.0, 1.0, 2.0]] * 2
    assert op.by(door)(dy, (3,)).shape == (3,)
    assert op.by(door)(dy, torch.empty(4, 5, 3).shape).shape == (4, 5, 3)
    assert op.by(door)(dy, x=(0, 3)).shape == (0, 3)


def test_arithmetic_on_dims_and_several_outputs(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[B, S+1, 2*H] -> y: f32[B, S], z: i64[H*4, H+S], w: f32[3]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, int64_t *z, float *w, int64_t B, int64_t S,
                             int64_t H)
{
    (void)ctx, (void)x;
    for (int64_t i = 0; i < B * S; i++)
        y[i] = (float)i;
    for (int64_t i = 0; i < H * 4 * (H + S); i++)
        z[i] = i;
    w[0] = (float)B, w[1] = (float)S, w[2] = (float)H;
    return WICK_OK;
}
"""
    )
    y, z, w = op.by(door)(torch.empty(2, 4, 10))
    assert (
        y.shape == (2, 3)
        and z.shape == (20, 8)
        and z.dtype == torch.int64
        and w.tolist() == [2.0, 3.0, 5.0]
    )
    assert torch.equal(z.flatten(), torch.arange(160))


def test_several_element_types_vary_independently(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: T[N], at: U[M] -> y: T[M] where T: f32 f64, U: i32 i64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const U *at, T *y, int64_t N, int64_t M)
{
    for (int64_t i = 0; i < M; i++) {
        if (at[i] < 0 || at[i] >= N) return wick_fail(ctx, WICK_EINVAL, "at[%lld] is out of range", (long long)i);
        y[i] = x[at[i]];
    }
    return WICK_OK;
}
"""
    )
    for floating in (torch.float32, torch.float64):
        for integer in (torch.int32, torch.int64):
            y = op.by(door)(torch.arange(5, dtype=floating), torch.tensor([4, 0, 2], dtype=integer))
            assert y.dtype == floating and y.tolist() == [4.0, 0.0, 2.0]


def test_sums_are_in_the_accumulation_type(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: T[N], start: A[] -> y: A[] where T: f16 bf16 f32 f64 i8 u8 i16 i32 i64 bool");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const A *start, A *y, int64_t N)
{
    A sum = *start;
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        sum += wick_A(x[i]);
    *y = sum;
    return WICK_OK;
}
"""
    )
    wide = {torch.float64: torch.float64, **dict.fromkeys(FLOATS[:3], torch.float32)}
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        accumulate = wide.get(dtype, torch.int64)
        y = op.by(door)(torch.ones(100, dtype=dtype), torch.tensor(27, dtype=accumulate))
        assert y.dtype == accumulate and y.item() == 127


@pytest.mark.parametrize("dtype", INTEGERS + [torch.bool])
def test_fixed_and_variable_integers(make_copy: Made, door: str, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0]).to(dtype)
    y = make_copy.by(door)(x)
    assert y.dtype == dtype and torch.equal(x, y)


@pytest.fixture(scope="module")
def make_copy(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "x: T[*N] -> y: T[*N] where T: i8 i16 i32 i64 u8 bool");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = x[i];
    return WICK_OK;
}
"""
    )


def test_strided_views_show_sizes_and_strides_in_elements(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: strided f32[M, N], o?: strided f32[K] -> y: f32[M, N], facts: i64[6]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const wick_view *x, const wick_view *o, float *y, int64_t *facts,
                             int64_t M, int64_t N, int64_t K)
{
    const float *data = x->data;
    (void)ctx, (void)K;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++)
            y[m * N + n] = data[m * x->stride[0] + n * x->stride[1]];
    facts[0] = x->dim, facts[1] = x->size[0], facts[2] = x->size[1];
    facts[3] = x->stride[0], facts[4] = x->stride[1], facts[5] = o ? o->stride[0] : -1;
    return WICK_OK;
}
"""
    )
    call, base = op.by(door), torch.arange(24.0).reshape(4, 6)
    for x in (base, base.t(), base[::2, 1::3], base[0].expand(3, 6), base[:, :0]):
        y, facts = call(x)
        assert torch.equal(y, x) and facts.tolist() == [2, *x.shape, *x.stride(), -1]
    assert call(base, base[:, 2])[1].tolist() == [2, 4, 6, 6, 1, 6]


def test_scratch_is_aligned_memory_of_its_size(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N] -> y: f32[N] scratch w: f32[2*N] scratch v: u8[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y, float *w, uint8_t *v, int64_t N)
{
    if ((uintptr_t)w % 64 || (uintptr_t)v % 64) return wick_fail(ctx, WICK_EINVAL, "scratch is not aligned");
    for (int64_t i = 0; i < N; i++)
        w[2 * i] = x[i], w[2 * i + 1] = 1, v[i] = 2;
    for (int64_t i = 0; i < N; i++)
        y[i] = w[2 * i] + w[2 * i + 1] + v[i];
    return WICK_OK;
}
"""
    )
    for n in (0, 1, 1000):
        x = torch.randn(n)
        assert torch.equal(op.by(door)(x), x + 1 + 2)


def test_no_results_at_all(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x!: i64[] -> ()");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t *x)
{
    (void)ctx;
    *x += 1;
    return WICK_OK;
}
"""
    )
    x = torch.tensor(0)
    assert op.by(door)(x) is None and x.item() == 1


def test_the_kernels_words_reach_the_caller(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "k: int -> y: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t k, int64_t *y)
{
    *y = k;
    if (k == 1) return wick_fail(ctx, WICK_EINVAL, "k is %lld, which nobody likes", (long long)k);
    if (k == 2) return WICK_ENOTSUP;
    return WICK_OK;
}
"""
    )
    call = op.by(door)
    with pytest.raises(RuntimeError, match=f"{op.name}: k is 1, which nobody likes"):
        call(1)
    with pytest.raises(RuntimeError, match=f"{op.name}: the operator failed with status 2"):
        call(2)
    assert call(3) == 3


# ---- threads ----


def test_parallel_loops_cover_every_item_once(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "n: int, fail_at: int = -1 -> y: i32[n]");
typedef struct job { int32_t *y; wick_ctx *ctx; int64_t fail_at; } job;
static wick_status body(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        if (i == j->fail_at) return wick_fail(j->ctx, WICK_EINVAL, "item %lld is bad", (long long)i);
        j->y[i]++;
    }
    return WICK_OK;
}
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t n, int64_t fail_at, int32_t *y)
{
    job j = {y, ctx, fail_at};
    memset(y, 0, (size_t)n * sizeof *y);
    return wick_parallel(ctx, n, 64, body, &j);
}
"""
    )
    assert bool((op.by(door)(100_003) == 1).all())
    with pytest.raises(RuntimeError, match=f"{op.name}: item 70000 is bad"):
        op.by(door)(100_003, 70_000)


def test_the_interpreter_runs_while_a_kernel_does(make: Maker, either: str) -> None:
    op = make(
        """
#include <time.h>
WICK_OP(OP, "ms: int -> y: int");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, int64_t ms, int64_t *y)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
    (void)ctx;
    nanosleep(&t, NULL);
    *y = ms;
    return WICK_OK;
}
""",
        flags=["-D_POSIX_C_SOURCE=200809L"],
    )
    call, ticks, stop = op.by(either), [], threading.Event()
    call(0)

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    call(400)
    end = time.monotonic()
    stop.set()
    thread.join()
    assert end - begin >= 0.4
    assert len([t for t in ticks if begin < t < end]) >= 10


def test_calls_from_many_threads_at_once(add: Made, door: str) -> None:
    call, wrong = add.by(door), []

    def work(k: int) -> None:
        for i in range(300):
            x = torch.full((k + 1, 5), float(i))
            if not torch.equal(call(x, float(k)), x + k):
                wrong.append((k, i))
            try:
                call(x.int())
                wrong.append((k, i))
            except RuntimeError as e:
                if f"{add.name}: x is i32" not in str(e):
                    wrong.append(str(e))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_an_element_type_first_called_by_many_threads_is_built_once(make: Maker, door: str) -> None:
    op = make(ADD)
    results: list[torch.Tensor] = []
    x = torch.zeros(3, dtype=torch.bfloat16)
    threads = [threading.Thread(target=lambda: results.append(op.by(door)(x))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r.tolist() for r in results] == [[1.0, 1.0, 1.0]] * 8


# ---- shipped operators ----


def test_shipped_operators_are_there_after_import() -> None:
    x = torch.randn(4, 5)
    assert torch.equal(wick.ops.relu(x), torch.relu(x))
    assert torch.equal(torch.ops.wick.relu(x), torch.relu(x))
