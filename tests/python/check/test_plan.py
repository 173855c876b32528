"""The plan: which cases there are."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from parts import SCALE, reference, subject_of

from wick.check import draw
from wick.check.case import Case
from wick.check.forward import Forward
from wick.check.operator import Operator
from wick.check.plan import Planner, candidates
from wick.check.plan_huge import BLOCK, plan_huge


def test_inputs_that_are_only_read_may_be_the_same(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[M, D], y: f32[N, D], z: f32[D] -> d: f32[M, N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *y, const float *z,\n"
        "                             float *d, int64_t M, int64_t D, int64_t N)\n"
        "{ (void)c, (void)x, (void)y, (void)z, (void)d, (void)M, (void)D, (void)N; return WICK_OK; }\n"
    )
    cases = list(Planner(Operator("local", made.name), 0).aliases())
    assert [case.values for case in cases] == ["normal", "special"]
    for case in cases:
        assert case.layouts == {"y": "is-x"} and case.dims["M"] == case.dims["N"]


def test_a_size_with_a_default_may_be_left_out_of_a_case(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], k: int = 3 -> y: f32[N, k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.read_case(f"{made.name} N=2").dims == {"N": 2, "k": 3}
    assert operator.read_case(f"{made.name} N=2 k=5").dims == {"N": 2, "k": 5}


def test_a_matrix_that_is_multiplied_with_itself_is_square(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "a: f32[M, K], b: f32[K, N] -> y: f32[M, N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *a, const float *b, float *y,\n"
        "                             int64_t M, int64_t K, int64_t N)\n"
        "{ (void)c, (void)a, (void)b, (void)y, (void)M, (void)K, (void)N; return WICK_OK; }\n"
    )
    cases = list(Planner(Operator("local", made.name), 0).aliases())
    assert [case.values for case in cases] == ["normal", "special"]
    for case in cases:
        assert case.layouts == {"b": "is-a"} and len(set(case.dims.values())) == 1


def test_large_sizes_are_odd_and_also_such_that_packs_fit() -> None:
    for seed in range(5):
        cases = [c.dims for c in Planner(SCALE, seed).streaming()]
        packed = [d for d in cases if d["C"] % 16 == 0 and d["C"] // 16 % 2]
        assert packed and len(packed) < len(cases)
        assert all(math.prod(d["N"]) * d["C"] > 4_000_000 for d in packed)
    rows = {case.dims["C"] for case in plan_huge(SCALE, packs=True)}
    assert rows == {3, 16, BLOCK}


def test_bytes_are_any_number_where_the_reference_can_say_no(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: u8[N, K], i: i32[N] -> y: i32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const uint8_t *x, const int32_t *i, int32_t *y,\n"
        "                             int64_t N, int64_t K)\n"
        "{ (void)c, (void)x, (void)i, (void)y, (void)N, (void)K; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for known in (True, False):
        subject = Forward(
            operator, reference(lambda x, i: x) if known else None, lambda phase: None
        )
        largest = {"x": 0, "i": 0}
        for seed in range(6):
            case = Case(made.name, dims={"N": 3, "K": 500}, seed=seed)
            for name, value in zip(("x", "i"), subject.prepare(case).values):
                largest[name] = max(largest[name], int(value.max()))
        assert largest["i"] == 2 and largest["x"] == (255 if known else 2)


@pytest.mark.parametrize(
    "function, is_data",
    [
        (lambda x, n: (x.abs() % 7 + n.sum() * 0, n * 1), True),
        (lambda x, n: (x.new_tensor(range(99))[x], n * 1), False),  # a table
    ],
)
def test_whole_numbers_that_may_be_anything_are(make: Any, function: Any, is_data: bool) -> None:
    """If the reference takes them, and they have all of the dims: lengths have not."""
    made = make(
        'WICK_OP(OP, "x: i32[N, M], n: i16[N] -> y: i64[N, M], z: i64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const int32_t *x, const int16_t *n, int64_t *y,\n"
        "                             int64_t *z, int64_t N, int64_t M)\n"
        "{ (void)c, (void)x, (void)n, (void)y, (void)z, (void)N, (void)M; return WICK_OK; }\n"
    )
    subject = subject_of(Operator("local", made.name), function)
    assert subject.numbers == ({"x"} if is_data else set())
    case = Case(made.name, {}, {"N": 30, "M": 40}, values="wide", seed=1)
    x, n = subject.prepare(case).values
    assert (int(x.min()) < -1000) == is_data
    assert int(n.min()) >= 0 and int(n.max()) < 30


def test_dims_are_swapped_with_their_neighbours_as_well_as_reversed() -> None:
    orders = set()
    for turn in range(3):
        x = draw.arrange("transposed", (2, 3, 5), torch.rand, turn)
        assert tuple(x.shape) == (2, 3, 5)
        orders.add(tuple(sorted(range(3), key=lambda d: -x.stride(d))))
    assert orders == {(2, 1, 0), (1, 0, 2), (0, 2, 1)}


def test_each_dim_repeats_the_same_memory_dense_and_not() -> None:
    ways = {draw.arrange("expanded", (3, 4), torch.rand, turn).stride() for turn in range(4)}
    assert ways == {(0, 1), (0, 2), (1, 0), (3, 0)}


def test_cases_of_threads_and_leaks_have_odd_values_too() -> None:
    plan = Planner(Operator("wick", "relu"), 0)
    assert {c.values for c in plan.few((7, 700))} == {"normal", "special"}
    assert {c.values for c in plan.few((7, 700), plain=True)} == {"normal"}


def test_integers_that_no_double_holds_are_tried() -> None:
    gen = draw.generator(0, "x")
    drawn = draw.values("special", (999,), torch.int64, gen, below=-1)
    assert (drawn.double().long() != drawn).any()


def test_every_case_fits_and_every_kind_of_size_is_there() -> None:
    for seed in range(3):
        plan = Planner(SCALE, seed)
        cases = [*plan.sizes(), *plan.values(), *plan.layouts(), *plan.choices(), *plan.large()]
        for case in cases:
            SCALE.plan(case)
        sizes = {case.dims["C"] for case in cases}
        assert {0, 1, 2, 7, 15, 16, 17, 31, 33, 255, 257, 1025, 4097, 65537} <= sizes
        assert {c.types["T"] for c in cases} == {"f16", "bf16", "f32", "f64"}
        assert set(draw.LAYOUTS) <= {v for c in cases for v in c.layouts.values()}
        assert {c.values for c in cases} >= {"normal", "nan", "inf", "special", "tiny", "zeros"}
        assert all(c.values != "big" or c.types["T"] == "f16" for c in cases)
        leading = {c.dims["N"] for c in cases}
        assert {(), (0,), (2, 3), (2, 0, 3)} <= leading


def test_every_choice_of_every_scalar_is_tried(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], s: float, m: 'p'|'q'|'r', k: int = 7, b: bool = true -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, double s, int m, int64_t k, bool b,\n"
        "                             float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)s, (void)b, (void)m, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).choices())
    for p in operator.scalars:
        assert set(candidates(p)) <= {c.scalars.get(p.name, p.default) for c in cases}, p.name
    assert candidates(operator.scalars[2])[0] == 7


def test_dims_that_nothing_ties_together_are_huge_each(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], y: f32[M], w: f32[M, C], K: int -> z: f32[K]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *y, const float *w,\n"
        "                             int64_t K, float *z, int64_t N, int64_t M, int64_t C)\n"
        "{ (void)c, (void)x, (void)y, (void)w, (void)z, (void)N, (void)M, (void)C, (void)K;\n"
        "  return WICK_OK; }\n"
    )

    def large(packs: bool) -> list[str]:
        cases = plan_huge(Operator("local", made.name), packs)
        return sorted(name for c in cases for name, size in c.dims.items() if size > 2**29)

    assert large(packs=False) == ["C", "K", "M", "N"]  # no result has C: it is summed up
    assert sorted(set(large(packs=True))) == ["K", "M", "N"]


def test_sizes_of_many_dims_are_not_all_large_at_once(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[B, C, H, W], w: f32[O, C, K, L] -> y: f32[B, O, H-K+1, W-L+1]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, float *y, int64_t B,\n"
        "                             int64_t C, int64_t H, int64_t W, int64_t O, int64_t K, int64_t L)\n"
        "{ (void)c, (void)x, (void)w, (void)y, (void)B, (void)C, (void)H, (void)W, (void)O, (void)K, (void)L;\n"
        "  return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).sizes())
    fit = [case for case in cases if operator.fits(case)]
    assert max(case.numel for case in fit) <= 1_000_000_000
    assert sorted(case.numel for case in fit)[-len(fit) // 50] <= 50_000_000  # but for windows
    for name in operator.dims:  # a window of 513 needs as much room
        assert 513 in {case.dims[name] for case in fit}
    results = [operator.plan(case)[1][0][0] for case in fit]
    for axis in range(4):  # 100 columns are left, however long the row was
        assert {*range(131), 768} <= {shape[axis] for shape in results}
    for pair in itertools.combinations(operator.dims, 2):
        assert any(min(case.dims[name] for name in pair) >= 70 for case in fit), pair


def test_a_dim_that_leaves_a_whole_number_is_huge_as_well(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[R, C], w?: f32[C] -> v: f32[R], at: i64[R]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, float *v, int64_t *at,\n"
        "                             int64_t R, int64_t C)\n"
        "{ (void)c, (void)x, (void)w, (void)v, (void)at, (void)R, (void)C; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.counted_dims == ["C"]
    assert [case.dims["C"] > 2**31 for case in plan_huge(operator)] == [False, True]
    counted = list(Planner(operator, 0).counted())
    assert {case.dims["C"] > 2**24 for case in counted} == {True}
    assert {case.values for case in counted} == {"positive", "late", "zeros"}
    assert [case.values for case in counted if case.absent == ("w",)] == ["zeros"]


@pytest.mark.parametrize(
    ("function", "large"),
    [
        (lambda x, k, n: x * k + n % 7, {"k", "n"}),
        (lambda x, k, n: sum(x for _ in range(k)) + n, {"n"}),  # as many times
        (lambda x, k, n: x + torch.arange(k).sum() + n, {"n"}),  # as many elements
        (lambda x, k, n: x + len([0 for _ in range(k)]) + n, {"n"}),  # torch does not see these
        (lambda x, k, n: x[k % 2 : -n or None], {"k"}),
    ],
)
def test_ints_may_be_large_where_that_is_no_more_to_do(
    make: Any, function: Any, large: set[str]
) -> None:
    made = make(
        'WICK_OP(OP, "x: f64[N], k: int, n: int = 1 -> y: f64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const double *x, int64_t k, int64_t n, double *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)n, (void)y, (void)N; return WICK_OK; }\n"
    )
    if large == {"k"}:  # whose n is refused when it is out of bounds

        def checked(x: torch.Tensor, k: int, n: int = 1) -> torch.Tensor:
            if n > 100:
                raise ValueError("n is too large")
            return x * k

        function = checked
    operator = Operator("local", made.name)
    subject = subject_of(operator, function)
    assert subject.large_ints == large
    cases = list(Planner(operator, 0).choices(subject.large_ints))
    for name in ("k", "n"):
        largest = max(c.scalars.get(name, 0) for c in cases)
        assert (largest > 2**53) == (name in large), name


def test_sizes_are_tried_without_optional_inputs_as_well(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N, C], a?: f32[C], b?: f32[C] -> y: f32[N, C]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *a, const float *b,\n"
        "                             float *y, int64_t N, int64_t C)\n"
        "{ (void)c, (void)x, (void)a, (void)b, (void)y, (void)N, (void)C; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    cases = [*plan.sizes(), *plan.values()]
    for some in (("a",), ("b",), ("a", "b")):
        sizes = {c.dims["C"] for c in cases if set(c.absent) == set(some)}
        assert len(sizes) > 12 and max(sizes) > 1000, some
    assert {c.values for c in cases if c.absent} == {c.values for c in cases}
    few = list(plan.few((0, 7, 700, 70_000)))  # what leaks and threads are judged by
    assert {c.dims["C"] for c in few if c.absent} >= {7, 70_000} and any(not c.absent for c in few)


def test_every_kind_of_values_is_tried_where_a_result_is_not_wanted(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N] -> y: f32[N], at?: i64[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, float *y, int64_t *at, int64_t N)\n"
        "{ (void)c, (void)x, (void)y, (void)at, (void)N; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    cases = [*plan.sizes(), *plan.values()]
    assert {c.values for c in cases if c.unwanted} == {c.values for c in cases}
    assert len({c.dims["N"] for c in cases if c.unwanted}) > 12


def test_two_dims_are_large_at_once() -> None:
    plan = Planner(Operator("wick", "reduce_sum_dim"), 0, ("f32",))
    sizes = [
        [s if isinstance(s, int) else max(s, default=1) for s in c.dims.values()]
        for c in plan.sizes()
    ]
    assert any(sorted(s)[-2] > 256 for s in sizes)
    assert any(s[-1] == s[-2] > 64 for s in sizes)


def test_two_dims_are_not_too_large_at_once(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[H, W], k: int = 2 -> y: f32[H*k, W*k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t H, int64_t W)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)H, (void)W; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = list(Planner(operator, 0).sizes())
    made_of = [c.dims["H"] * c.dims["W"] * c.dims["k"] ** 2 for c in cases]
    assert max(made_of) < 8_000_000
    assert any(c.dims["k"] > 64 and c.dims["W"] > 64 for c in cases)


def test_more_rows_than_a_gpu_takes_at_once() -> None:
    cases = list(Planner(SCALE, 0).looping())
    assert [c.dims for c in cases] == [{"N": (85714,), "C": 70}, {"N": (70,), "C": 85714}]


def test_flags_are_tried_at_all_sizes_and_values(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], m: 'p'|'q' = 'p', b: bool = false, k: int = 7 -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int m, bool b, int64_t k, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)k, (void)b, (void)m, (void)y, (void)N; return WICK_OK; }\n"
    )
    plan = Planner(Operator("local", made.name), 0)
    for cases, key in ((list(plan.sizes()), "N"), (list(plan.values()), "values")):
        other = [c for c in cases if c.scalars.get("m") == "q" and c.scalars["b"]]
        keys = {c.dims["N"] if key == "N" else c.values for c in other}
        assert len(keys) > 3 and len(other) < len(cases) / 2
        assert all("k" not in c.scalars for c in cases)


def test_numbers_that_the_reference_takes_are_tried_at_all_sizes(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], mode: int = 1, eps: float = 0.5 -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t mode, double eps, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)mode, (void)eps, (void)y, (void)N; return WICK_OK; }\n"
    )

    def function(x: torch.Tensor, mode: int = 1, eps: float = 0.5) -> torch.Tensor:
        if mode not in (0, 1):
            raise ValueError("mode must be 0 or 1")
        return x * mode + torch.tensor(eps).sqrt()

    operator = Operator("local", made.name)
    taken = subject_of(operator, function).taken
    assert taken == {"mode": [1, 0], "eps": [0.5, 1.0, 2.0, 1.5, 0.0, 3.3, 0.3]}
    plan = Planner(operator, 0, (), taken)
    for cases in (list(plan.sizes()), list(plan.large())):
        assert all(c.scalars.get("mode", 1) in (0, 1) for c in cases)
        assert sum(not c.scalars for c in cases) > len(cases) / 2
    for name in ("mode", "eps"):
        sizes = {c.dims["N"] for c in plan.sizes() if name in c.scalars}
        assert max(sizes) > 4096 and len(sizes) > 20, name
    assert any(c.scalars for c in plan.large())
    assert plan.draw_scalars()["mode"] in (0, 1)


def test_dims_that_may_not_be_longer_than_others_are_asked_about(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[*N, C], k: int = 1 -> y: f32[*N, k]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t k, float *y, int64_t N,\n"
        "                             int64_t C)\n"
        "{ (void)c, (void)x, (void)k, (void)y, (void)N, (void)C; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    bounded = subject_of(operator, lambda x, k=1: torch.topk(x, k)[0]).bounded
    assert bounded == {("k", "C")}
    assert subject_of(operator, lambda x, k=1: x[..., :1].expand(*x.shape[:-1], k)).bounded == set()
    square = subject_of(
        operator, lambda x, k=1: x.view(*x.shape[:-1], k)
    ).bounded  # as long, no less
    assert square == set()
    plan = Planner(operator, 0, bounded=bounded)
    swept = [c.dims for c in (*plan.sizes(), *plan.values(), *plan.tiny(9)) if operator.fits(c)]
    longer = [dims for dims in swept if dims["k"] > dims["C"]]
    assert len(longer) < len(swept) / 50  # a C of 0
    assert {100, 513, 768} <= {dims["k"] for dims in swept}
    assert any(dims["C"] > dims["k"] > 500 for dims in swept)
    assert any(c.dims["k"] > c.dims["C"] for c in plan.together(True))  # to see that nobody crashes


def test_small_sizes_and_usual_ints_come_together(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: T[B, S*P+K-S-2*pad], w: T[K, O], pad: int = 0, S: int = 1, s: float = 1.0"\n'
        '            " -> y: T[B, P, O] where T: f32 f64");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const T *x, const T *w, int64_t pad, int64_t S,\n"
        "                             double s, T *y, int64_t B, int64_t P, int64_t K, int64_t O)\n"
        "{ (void)c, (void)x, (void)w, (void)pad, (void)S, (void)s, (void)y, (void)B, (void)P, (void)K;\n"
        "  (void)O; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    cases = [c for c in Planner(operator, 0).together(True) if operator.fits(c)]
    ways = [(c.dims["K"] == 1, c.dims["pad"] == 0, c.dims["S"] > 1) for c in cases]
    assert ways.count((True, True, True)) > 1
    assert {bool(c.scalars) for c in cases} == {True, False}
    assert max(c.numel for c in cases) < 10**7


def test_whole_numbers_that_are_one_as_floats() -> None:
    gen = draw.generator(0, "x")
    for dtype, narrow in ((torch.int64, torch.float64), (torch.int32, torch.float32)):
        drawn = draw.values("offset", (99,), dtype, gen, below=-1)
        assert len(drawn.unique()) == 7 and len(drawn.to(narrow).unique()) < 7
    assert draw.values("offset", (99,), torch.int64, gen, below=4).max() < 4


def test_sizes_that_people_use_are_tried() -> None:
    cases = list(Planner(SCALE, 0).sizes())
    for name in ("N", "C"):
        tried = {c.dims[name] if name == "C" else math.prod(c.dims[name]) for c in cases}
        assert tried >= {*range(131), 200, 500, 768, 5000, 10_000, 100_000}, name


def test_a_window_has_a_row_to_lie_in(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[L], w: f32[K], dil: int = 1 -> y: f32[L-dil*K+dil]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *w, int64_t dil, float *y,\n"
        "                             int64_t L, int64_t K)\n"
        "{ (void)c, (void)x, (void)w, (void)dil, (void)y, (void)L, (void)K; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for size in (2, 40, 513):
        assert operator.fits(Case(made.name, {}, Planner(operator, 0).dims.around("K", size))), size
    assert all(operator.fits(case) for case in plan_huge(operator))
