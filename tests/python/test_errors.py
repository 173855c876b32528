"""What bad arguments get: one line with the operator, the argument, what it was and what was expected, by either door.

Shape, element type, device, layout and value are RuntimeError everywhere. Wrong number or kind of arguments is TypeError
from wick's own doors; from torch.ops it is what torch raises for its own operators.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support import ADD, Made

import wick

Maker = Callable[..., Made]


def said(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value).splitlines()[0]


@pytest.fixture(scope="module")
def affine(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C] where T: f16 f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++)
        y[i] = wick_T(wick_A(x[i]) * (A)scale + wick_A(bias[i % C]));
    return WICK_OK;
}
"""
    )


@pytest.fixture(scope="module")
def mixed(make: Maker) -> Made:
    return make(
        """
WICK_OP(OP, "x: f32[N], at: U[M], k: int, f: float = 1.0, b: bool = false, mode: 'sum'|'mean' = 'sum',"
            " text: str = '', o?: f32[N] -> y: f32[k], z?: f32[] where U: i32 i64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const U *at, int64_t k, double f, bool b, int mode,
                             const char *text, const float *o, float *y, float *z, int64_t N, int64_t M)
{
    (void)ctx, (void)x, (void)at, (void)f, (void)b, (void)mode, (void)text, (void)o, (void)N, (void)M;
    for (int64_t i = 0; i < k; i++)
        y[i] = (float)i;
    if (z) *z = 0;
    return WICK_OK;
}
"""
    )


X, BIAS = torch.ones(2, 3), torch.ones(3)
V, AT = torch.ones(3), torch.zeros(2, dtype=torch.int64)


# ---- values: RuntimeError by every door ----

BAD_TENSORS = {
    "type not in the list": ((X.int(), BIAS), ["x is i32", "f16, f32", "f64"]),
    "types that disagree": ((X, BIAS.double()), ["bias is f64", "T is f32", "as x is"]),
    "complex numbers": ((X.to(torch.complex64), BIAS), ["x is complex64", "not supported"]),
    "too few dimensions": ((torch.ones(()), BIAS), ["x has", "*N, C"]),
    "too many dimensions": ((X, X), ["bias has 2 dimensions", "C"]),
    "sizes that disagree": ((X, torch.ones(4)), ["bias", "4", "C is 3"]),
    "cpu and meta": ((X, BIAS.to("meta")), ["bias is on meta", "x is on cpu"]),
    "meta and cpu": ((X.to("meta"), BIAS), ["bias is on cpu", "x is on meta"]),
    "coordinate lists": ((X.to_sparse(), BIAS), ["x is sparse", "dense"]),
    "a sparse second argument": ((X, BIAS.to_sparse()), ["bias is sparse", "dense"]),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_a_tensor_that_does_not_fit(affine: Made, door: str, case: str) -> None:
    args, words = BAD_TENSORS[case]
    with pytest.raises(RuntimeError) as e:
        affine.by(door)(*args)
    assert not isinstance(e.value, wick.BuildError)
    assert said(e).startswith(f"{affine.name}: ")
    for word in words:
        assert word in said(e)
    assert torch.equal(affine.by(door)(X, BIAS), X + 1), (
        "the next call is as if nothing had happened"
    )


BAD_VALUES = {
    "fixed type": ((V.double(), AT, 1), {}, ["x is f64", "f32"]),
    "second type variable": ((V, AT.float(), 1), {}, ["at is f32", "i32", "i64"]),
    "negative size": ((V, AT, -1), {}, ["k", "-1"]),
    "a size no memory has": ((V, AT, 2**62), {}, ["y"]),
    "unknown choice": ((V, AT, 1), {"mode": "max"}, ["mode is 'max'", "'sum' or 'mean'"]),
    "optional of another size": ((V, AT, 1), {"o": torch.ones(4)}, ["o", "4", "N is 3"]),
    "optional of another type": ((V, AT, 1), {"o": V.half()}, ["o is f16", "f32"]),
    "optional elsewhere": ((V, AT, 1), {"o": V.to("meta")}, ["o is on meta", "x is on cpu"]),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_value_that_does_not_fit(mixed: Made, door: str, case: str) -> None:
    args, keywords, words = BAD_VALUES[case]
    with pytest.raises(RuntimeError) as e:
        mixed.by(door)(*args, **keywords)
    assert said(e).startswith(f"{mixed.name}: ")
    for word in words:
        assert word in said(e)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_an_int_beyond_64_bits(mixed: Made, value: int) -> None:
    with pytest.raises(RuntimeError) as e:
        mixed.direct(V, AT, value)
    assert said(e) == f"{mixed.name}: k is {value}, expected an int of 64 bits"
    with pytest.raises((RuntimeError, OverflowError, TypeError, ValueError)):
        mixed.torch(V, AT, value)


def test_an_int_beyond_every_float(mixed: Made) -> None:
    with pytest.raises(
        RuntimeError, match=f"{mixed.name}: f is 1000.*expected a number that a float can hold"
    ):
        mixed.direct(V, AT, 1, 10**400)


def test_a_dim_that_solves_to_no_size(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[S+1], w: f32[2*H] -> y: f32[S, H]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *w, float *y, int64_t S, int64_t H)
{
    (void)ctx, (void)x, (void)w;
    for (int64_t i = 0; i < S * H; i++)
        y[i] = 0;
    return WICK_OK;
}
"""
    )
    assert op.by(door)(torch.ones(3), torch.ones(4)).shape == (2, 2)
    with pytest.raises(RuntimeError, match=rf"^{op.name}: .*x.*0"):
        op.by(door)(torch.ones(0), torch.ones(4))
    with pytest.raises(RuntimeError, match=rf"^{op.name}: .*w.*5"):
        op.by(door)(torch.ones(3), torch.ones(5))


def test_a_shape_argument_that_does_not_fit(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "dy: f32[C], x: shape[*N, C] -> dx: f32[*N, C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *dy, float *dx, int64_t C, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++)
        dx[i] = dy[i % C];
    return WICK_OK;
}
"""
    )
    call = op.by(door)
    with pytest.raises(RuntimeError, match=rf"^{op.name}: x.*4.*C is 3"):
        call(V, (2, 4))
    with pytest.raises(RuntimeError, match=rf"^{op.name}: x\[0\] is -2"):
        call(V, (-2, 3))
    with pytest.raises(RuntimeError, match=rf"^{op.name}: "):
        call(V, (2**40, 2**40, 3))
    with pytest.raises(RuntimeError, match=rf"^{op.name}: x has"):
        call(V, ())
    with pytest.raises(
        RuntimeError, match=rf"^{op.name}: x has 80 dimensions, expected at most 64"
    ):
        call(V, [1] * 79 + [3])


@pytest.mark.filterwarnings("ignore")  # torch's, about the making of such tensors
def test_rarer_layouts(affine: Made, door: str) -> None:
    with pytest.raises(
        RuntimeError, match=f"^{affine.name}: x is sparse or packed, expected a dense"
    ):
        affine.by(door)(X.to_sparse_csr(), BIAS)
    with pytest.raises(RuntimeError, match=f"^{affine.name}: x .*expected"):
        affine.by(door)(torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), BIAS)


def test_a_tensor_whose_memory_was_given_back(make: Maker, door: str) -> None:
    op = make(ADD)
    x = torch.ones(1000)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=f"^{op.name}: x has no memory"):
        op.by(door)(x)


# ---- number and kind: TypeError from wick's doors ----

WRONG_CALLS = {
    "nothing": ((), {}, "argument x is missing"),
    "one too few": ((V, AT), {}, "argument k is missing"),
    "one too many": (
        (V, AT, 1, 1.0, True, "sum", "", None, 9),
        {},
        "got 9 arguments, expected at most 8",
    ),
    "unknown keyword": ((V, AT, 1), {"colour": 3}, "got an unknown argument colour"),
    "given twice": ((V, AT, 1), {"x": V}, "got argument x twice"),
    "want_ of an output that is not optional": (
        (V, AT, 1),
        {"want_y": True},
        "got an unknown argument want_y",
    ),
    "number for a tensor": ((3, AT, 1), {}, "x is int, expected a tensor"),
    "list for a tensor": (([1.0], AT, 1), {}, "x is list, expected a tensor"),
    "None for a tensor": ((None, AT, 1), {}, "x is NoneType, expected a tensor"),
    "word for an optional tensor": ((V, AT, 1), {"o": "a"}, "o is str, expected a tensor"),
    "float for an int": ((V, AT, 1.0), {}, "k is float, expected an int"),
    "word for an int": ((V, AT, "1"), {}, "k is str, expected an int"),
    "None for an int": ((V, AT, None), {}, "k is NoneType, expected an int"),
    "word for a float": ((V, AT, 1, "1.0"), {}, "f is str, expected a float"),
    "complex for a float": ((V, AT, 1, 1j), {}, "f is complex, expected a float"),
    "word for a bool": ((V, AT, 1), {"b": "yes"}, "b is str, expected a bool"),
    "number for a choice": ((V, AT, 1), {"mode": 1}, "mode is int, expected a str"),
    "bytes for a str": ((V, AT, 1), {"text": b"a"}, "text is bytes, expected a str"),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_number_or_kind(mixed: Made, case: str) -> None:
    args, keywords, words = WRONG_CALLS[case]
    with pytest.raises(TypeError) as e:
        mixed.direct(*args, **keywords)
    assert said(e).startswith(f"{mixed.name}: {words}")


TORCH_TAKES = [
    "None for a tensor",
    "bytes for a str",
]  # the first is refused by us, the second is text to torch


@pytest.mark.parametrize("case", [c for c in WRONG_CALLS if c not in TORCH_TAKES])
def test_wrong_number_or_kind_through_torch(mixed: Made, case: str) -> None:
    args, keywords, _ = WRONG_CALLS[case]
    with pytest.raises((RuntimeError, TypeError, ValueError), match=mixed.name):
        mixed.torch(*args, **keywords)


def test_none_for_a_tensor_through_torch(mixed: Made) -> None:
    with pytest.raises((RuntimeError, TypeError), match=f"{mixed.name}.*x"):
        mixed.torch(None, AT, 1)


def test_a_shape_of_the_wrong_kind(make: Maker) -> None:
    op = make(
        """
WICK_OP(OP, "x: shape[C] -> y: f32[C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, float *y, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < C; i++)
        y[i] = 0;
    return WICK_OK;
}
"""
    )
    assert op.direct((3,)).shape == (3,)
    for wrong, kind in [
        (3, "int"),
        ("3", "str"),
        (None, "NoneType"),
        ((1.5,), "float"),
        ((None,), "NoneType"),
    ]:
        with pytest.raises(TypeError, match=f"{op.name}: x is {kind}, expected a sequence of ints"):
            op.direct(wrong)


def test_text_that_is_not_text(mixed: Made) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        mixed.direct(V, AT, 1, text="\ud800")
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        mixed.direct(V, AT, 1, **{"\ud800": 1})


def test_text_with_a_zero_inside_is_refused_not_cut(mixed: Made, door: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match="text"):
        mixed.by(door)(V, AT, 1, text="a\0b")
    with pytest.raises((RuntimeError, ValueError, TypeError), match="mode"):
        mixed.by(door)(V, AT, 1, mode="sum\0")


def test_more_dimensions_than_there_can_be(affine: Made, door: str) -> None:
    with pytest.raises(
        RuntimeError, match=f"{affine.name}: x has 70 dimensions, expected at most 64"
    ):
        affine.by(door)(torch.ones([1] * 69 + [3]), BIAS)


# ---- names ----


def test_an_operator_that_does_not_exist_is_guessed() -> None:
    with pytest.raises(AttributeError) as e:
        wick.ops.rellu  # noqa: B018
    assert said(e).startswith("no operator rellu in namespace wick; did you mean relu")
    with pytest.raises(
        AttributeError, match="no operator zzzzzzzz in namespace wick; it has .*relu"
    ):
        wick.ops.zzzzzzzz  # noqa: B018
    with pytest.raises(AttributeError):
        torch.ops.wick.rellu  # noqa: B018


def test_an_operator_that_a_namespace_does_not_have(affine: Made) -> None:
    with pytest.raises(
        AttributeError, match=f"no operator {affine.name}x in namespace local; did you mean"
    ):
        getattr(wick.ops.local, affine.name + "x")


def test_an_operator_that_a_file_does_not_have(affine: Made) -> None:
    with pytest.raises(
        AttributeError, match=f"no operator nope in .*{affine.path.name}; it has {affine.name}$"
    ):
        affine.loaded.nope  # noqa: B018
    assert not hasattr(affine.loaded, "__wrapped__")


# ---- gradients that nobody defined ----


def test_a_result_without_gradient_is_right_and_says_so_when_asked(make: Maker, door: str) -> None:
    op = make(ADD)
    x = torch.zeros(3, requires_grad=True)
    y = op.by(door)(x)
    assert y.tolist() == [1.0, 1.0, 1.0] and y.requires_grad
    with pytest.raises(
        RuntimeError,
        match=f"{op.name}: no gradient: the operator's file defines no {op.name}_backward",
    ):
        y.sum().backward()
    assert x.grad is None
    for y in (
        op.by(door)(x * 2),
        op.by(door)(x) + x * 3,
    ):  # the second has a way back around the operator
        with pytest.raises(RuntimeError, match=f"{op.name}: no gradient"):
            torch.autograd.grad(y.sum(), x, allow_unused=True)


def test_a_gradient_is_missed_only_where_it_is_needed(make: Maker, door: str) -> None:
    op = make(ADD)
    x = torch.zeros(3, requires_grad=True)
    with torch.no_grad():
        assert not op.by(door)(x).requires_grad
    assert not op.by(door)(x.detach()).requires_grad
    y = op.by(door)(x) + x * 3
    with pytest.raises(RuntimeError, match=op.name):
        y.sum().backward()


def test_every_float_result_without_gradient_says_so(make: Maker, door: str) -> None:
    op = make(
        """
WICK_OP(OP, "x: f32[N], o?: f32[N], s: shape[K], mode: 'a'|'b' = 'a', k: int = 2, f: float = 0.5, b: bool = true"
            " -> y: f32[N], n: i64[], z?: f32[N], w: float");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *o, int mode, int64_t k, double f, bool b,
                             float *y, int64_t *n, float *z, double *w, int64_t N, int64_t K)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        y[i] = x[i] + (o ? o[i] : 0);
        if (z) z[i] = y[i];
    }
    *n = K * 100 + k * 10 + (mode == WICK_mode_b) + (b ? 5 : 0);
    *w = f;
    return WICK_OK;
}
"""
    )
    x = torch.zeros(3, requires_grad=True)
    y, n, z, w = op.by(door)(x, None, (4,))
    assert n.item() == 425 and w == 0.5 and not n.requires_grad
    for result in (y, z):
        with pytest.raises(RuntimeError, match=f"{op.name}: no gradient"):
            result.sum().backward()
    y, n, z, w = op.by(door)(x.detach(), x, (4,), "b", 3, 1.5, False, want_z=False)
    assert z is None and n.item() == 431 and w == 1.5
    with pytest.raises(RuntimeError, match=f"{op.name}: no gradient"):
        y.sum().backward()


def test_errors_inside_a_call_that_needs_a_gradient_keep_their_words(
    affine: Made, door: str
) -> None:
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError) as e:
        affine.by(door)(x, torch.ones(4))
    assert said(e).startswith(f"{affine.name}: bias")
