"""What the shipped operators promise, on any device: float64 references in plain torch, and how far a result may be off.

Tolerances follow from the promise: arithmetic in the accumulation type, then one rounding to the result's type. The
error of a sum hardly grows with its length.
"""

from __future__ import annotations

from typing import Any

import torch

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SUM_UNITS = 64  # what a sum may lose, in units of the accumulation type, of the sum of magnitudes

Tensor = torch.Tensor
Shape = int | tuple[int, ...]


def accumulation(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def unit(dtype: torch.dtype) -> float:
    """Half the distance from 1 to the next number: what one rounding can lose, relatively."""
    return torch.finfo(dtype).eps / 2


def spacing(dtype: torch.dtype) -> float:
    """What one rounding can lose near zero, absolutely: half the smallest subnormal."""
    info = torch.finfo(dtype)
    return info.tiny * info.eps / 2


def f64(x: Tensor) -> Tensor:
    return x.to(torch.float64)


def number(value: float, like: Tensor) -> Tensor:
    """A number as an operator takes it: rounded to the accumulation type."""
    return torch.tensor(value, dtype=accumulation(like.dtype), device=like.device)


def random(shape: Shape, dtype: torch.dtype, device: str = "cpu") -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device).to(dtype)


def specials(dtype: torch.dtype) -> Tensor:
    info = torch.finfo(dtype)
    least = info.tiny * info.eps  # the smallest subnormal
    values = [0.0, 1.0, info.tiny, info.tiny - least, least, 3 * least, info.max, info.max / 2]
    values += [info.max**0.5, info.tiny**0.5, info.eps, 1 + info.eps, float("inf"), float("nan")]
    return torch.tensor(values + [-v for v in values], dtype=torch.float64).to(dtype)


# ---- comparing ----


def assert_within(got: Tensor, want: Tensor, dtype: torch.dtype, loss: Any) -> None:
    """`got` is `want` (float64) rounded once to dtype, after arithmetic that lost up to `loss`."""
    assert got.dtype == dtype
    assert got.shape == want.shape
    assert got.is_contiguous()
    nearest = want.to(dtype)
    got64, exact = got.to(torch.float64), nearest.to(torch.float64)
    assert torch.equal(got64.isnan(), exact.isnan())
    tolerance = (want.abs() + loss) * unit(dtype) + spacing(dtype) + loss
    top = torch.finfo(dtype).max
    borders = want.abs() + tolerance >= top  # may round to infinity or stay finite
    close = (got64 == exact) | exact.isnan() | ((got64 - want).abs() <= tolerance)
    close |= borders & ((got64.isinf() & (got64.sign() == want.sign())) | exact.isinf())
    assert close.all(), f"off by {((got64 - want).abs() - tolerance)[~close].max()}"


def assert_same(got: Tensor, want: Tensor) -> None:
    """The same numbers to the sign of a zero, NaN in the same places."""
    assert got.dtype == want.dtype and got.shape == want.shape and got.is_contiguous()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(1.0), want.nan_to_num(1.0))
    assert torch.equal(got.signbit() & ~got.isnan(), want.signbit() & ~want.isnan())


def roundings(dtype: torch.dtype, *intermediates: Tensor) -> Any:
    """The loss of arithmetic whose rounded intermediate results are these."""
    a = accumulation(dtype)
    return sum(v.abs().nan_to_num(0, 0, 0) * unit(a) + spacing(a) for v in intermediates)


def overflowing(v: Tensor, dtype: torch.dtype) -> Tensor:
    """v, infinite where the accumulation type of dtype overflows."""
    rounded = v.to(accumulation(dtype)).to(torch.float64)
    return torch.where(rounded.isinf(), rounded, v)


def sum_loss(x: Tensor, dtype: torch.dtype, dim: int | None) -> Tensor:
    """`x`: what is summed, as float64."""
    size = x.abs().nan_to_num(0, 0, 0)
    return (size.sum() if dim is None else size.sum(dim)) * (SUM_UNITS * unit(accumulation(dtype)))


# ---- the operators ----


def check_addone(ops: Any, x: Tensor) -> None:
    want = f64(x) + 1
    assert_within(ops.addone(x), want, x.dtype, roundings(x.dtype, want))


def check_relu(ops: Any, x: Tensor) -> None:
    """As torch on the CPU, where -0.0 stays what it is; torch on a GPU makes 0.0 of it."""
    assert_same(ops.relu(x), torch.relu(x.cpu()).to(x.device).contiguous())


def check_mul(ops: Any, a: Tensor, b: Tensor) -> None:
    want = f64(a) * f64(b)
    assert_within(ops.mul(a, b), want, a.dtype, roundings(a.dtype, want))


def check_muladd(ops: Any, a: Tensor, b: Tensor, c: float = 0.3) -> None:
    product = overflowing(f64(a) * f64(b), a.dtype)
    want = product + f64(number(c, a))
    assert_within(ops.muladd(a, b, c), want, a.dtype, roundings(a.dtype, product, want))


def check_add_out(ops: Any, a: Tensor, b: Tensor) -> None:
    out = torch.full_like(a, 7.0, memory_format=torch.contiguous_format)
    assert ops.add_out(a, b, out) is None
    want = f64(a) + f64(b)
    assert_within(out, want, a.dtype, roundings(a.dtype, want))


def check_scale_bias_relu(ops: Any, x: Tensor, bias: Tensor, scale: float = 0.7) -> None:
    """Both: with the scale as a number, and as a tensor."""
    by = number(scale, x)
    product = overflowing(f64(x) * f64(by), x.dtype)
    total = product + f64(bias)
    for got in (ops.scale_bias_relu(x, bias, scale), ops.scale_bias_relu_learned(x, bias, by)):
        assert_within(got, torch.relu(total), x.dtype, roundings(x.dtype, product, total))


def check_reduce_sum(ops: Any, x: Tensor) -> None:
    assert_within(ops.reduce_sum(x), f64(x).sum(), x.dtype, sum_loss(f64(x), x.dtype, None))


def check_reduce_sum_dim(ops: Any, x: Tensor) -> None:
    assert_within(ops.reduce_sum_dim(x), f64(x).sum(1), x.dtype, sum_loss(f64(x), x.dtype, 1))


# ---- their gradients ----


def check_addone_backward(ops: Any, dy: Tensor) -> None:
    assert_same(ops.addone_backward(dy), dy.contiguous())


def check_relu_backward(ops: Any, dy: Tensor, x: Tensor) -> None:
    assert_same(
        ops.relu_backward(dy, x), torch.where(x <= 0, torch.zeros_like(dy), dy).contiguous()
    )


def check_product_backward(ops: Any, dy: Tensor, a: Tensor, b: Tensor) -> None:
    wanted = [f64(dy) * f64(b), f64(dy) * f64(a)]
    for backward in (ops.mul_backward, ops.muladd_backward):
        for asked in ((True, True), (True, False), (False, True)):
            found = backward(dy, a, b, want_da=asked[0], want_db=asked[1])
            for got, want, yes in zip(found, wanted, asked, strict=True):
                assert (got is not None) == yes
                if yes:
                    assert_within(got, want, dy.dtype, roundings(dy.dtype, want))


def check_scale_bias_relu_backward(
    ops: Any, dy: Tensor, x: Tensor, bias: Tensor, scale: float = 0.7
) -> None:
    """Whatever is asked for, by both operators. What is cut off is decided in the accumulation type, as forward."""
    kind, by = accumulation(x.dtype), number(scale, x)
    cut = x.to(kind) * by + bias.to(kind) <= 0
    passed = torch.where(cut, torch.zeros_like(f64(dy)), f64(dy))
    dx, rows = passed * f64(by), tuple(range(x.dim() - 1))
    dbias = passed.sum(rows) if rows else passed
    dscale = (passed * f64(x)).sum()
    loss = sum_loss(passed.reshape(-1, bias.numel()), x.dtype, 0) if bias.numel() else 0.0
    dot_loss = sum_loss(passed * f64(x), x.dtype, None)
    for asked in ((1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)):
        want_dx, want_dbias, want_dscale = (bool(yes) for yes in asked)
        found = ops.scale_bias_relu_learned_backward(
            dy, x, bias, by, want_dx=want_dx, want_dbias=want_dbias, want_dscale=want_dscale
        )
        results = [found]
        if want_dx or want_dbias:
            plain = ops.scale_bias_relu_backward(
                dy, x, bias, scale, want_dx=want_dx, want_dbias=want_dbias
            )
            results.append((*plain, found[2]))
        for got_dx, got_dbias, got_dscale in results:
            assert [v is not None for v in (got_dx, got_dbias, got_dscale)] == [
                want_dx,
                want_dbias,
                want_dscale,
            ]
            if want_dx:
                assert_within(got_dx, dx, x.dtype, roundings(x.dtype, dx))
            if want_dbias:
                assert_within(got_dbias, dbias, x.dtype, loss)
            if want_dscale:
                assert_within(got_dscale, dscale, kind, dot_loss + roundings(x.dtype, dscale))


def check_reduce_sum_backward(ops: Any, x: Tensor) -> None:
    dy = x.flatten()[:1].sum()  # also where there is nothing
    assert_same(ops.reduce_sum_backward(dy, x.shape), dy.expand(x.shape).contiguous())


def check_reduce_sum_dim_backward(ops: Any, x: Tensor, dy: Tensor) -> None:
    got = ops.reduce_sum_dim_backward(dy, x.shape)
    assert_same(got, dy[:, None].expand(x.shape).contiguous())
