"""The torch bridge on a GPU: where results live, on which stream they are made, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support import ADD, spell

import wick
from wick import _calls

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SLEEP = 1_000_000_000  # cycles: about half a second, in which a host does a great deal

Op = Callable[..., Any]


@pytest.fixture(params=["torch.ops", "wick.ops"])
def ops(request: pytest.FixtureRequest) -> Any:
    """Both doors to the operators that come with Wick."""
    return torch.ops.wick if request.param == "torch.ops" else wick.ops


@pytest.fixture(autouse=True)
def quiet_gpu() -> Iterator[None]:
    yield
    torch.cuda.synchronize()


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers, so that every type holds them and their sums exactly."""
    return (torch.arange(torch.Size(shape).numel(), device="cuda") % 7 - 3).to(dtype).reshape(shape)


def warm(op: Op, *args: Any) -> None:
    """Code for these types is compiled and loaded, and the allocator has its blocks."""
    op(*args)
    torch.cuda.synchronize()


# ---- results ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_on_the_device_of_the_arguments(ops: Any, dtype: torch.dtype) -> None:
    x, bias = numbers(5, 7, dtype=dtype), numbers(7, dtype=dtype)
    y = ops.scale_bias_relu(x, bias, 2.0)
    assert y.device == x.device and y.dtype == dtype and y.shape == x.shape
    assert torch.equal(y, torch.relu(x * 2 + bias))
    assert torch.equal(ops.addone(x), x + 1)
    assert torch.equal(ops.mul(x, x), x * x)


def test_every_device_is_served(ops: Any) -> None:
    for i in range(torch.cuda.device_count()):
        x = numbers(100).to(f"cuda:{i}")
        y = ops.addone(x)
        assert y.device == x.device and torch.equal(y, x + 1)
        with torch.cuda.device(torch.cuda.device_count() - 1 - i):  # the current one is another
            assert torch.equal(ops.addone(x), x + 1)


def test_memory_comes_from_torch(ops: Any) -> None:
    x = numbers(1 << 20)
    warm(ops.addone, x)
    before = torch.cuda.memory_allocated()
    y = ops.addone(x)
    assert torch.cuda.memory_allocated() == before + y.nbytes
    del y
    assert torch.cuda.memory_allocated() == before


def test_nothing_stays_behind(ops: Any) -> None:
    x, bias, short = numbers(64, 64), numbers(64), numbers(63)
    before = torch.cuda.memory_allocated()
    for _ in range(1000):
        ops.addone(x.t())
        with pytest.raises(RuntimeError, match="bias"):
            ops.scale_bias_relu(x, short)
        ops.scale_bias_relu(x, bias)
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4), (2,) * 7])
def test_any_number_of_dimensions(ops: Any, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    y = ops.addone(x)
    assert y.shape == x.shape and y.is_cuda and torch.equal(y, x + 1)


# ---- memory that is not as the kernel wants it ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first", [1, 2, 3, 5])
def test_misaligned_memory(ops: Any, dtype: torch.dtype, first: int) -> None:
    x, y = numbers(1027, dtype=dtype)[first:], numbers(1027, dtype=dtype)[:-first]
    assert torch.equal(ops.addone(x), x + 1)
    assert torch.equal(ops.mul(x, y), x * y)


VIEWS = {
    "transposed": lambda x: x.t(),
    "every other": lambda x: x[::2, ::3],
    "expanded": lambda x: x[:1].expand(8, x.shape[1]),
    "flipped rows": lambda x: x.flip(0)[:, 1:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_as_they_are(ops: Any, view: str) -> None:
    x = VIEWS[view](numbers(16, 24))
    assert torch.equal(ops.addone(x), x + 1)
    bias = numbers(2 * x.shape[-1])[::2]
    assert torch.equal(ops.scale_bias_relu(x, bias, 1.0), torch.relu(x + bias))


def test_a_lazy_clone_is_read_and_written_as_its_own(ops: Any) -> None:
    x = numbers(100)
    clone, value = torch._lazy_clone(x), x.clone()
    assert torch.equal(ops.addone(clone), value + 1)
    other = torch._lazy_clone(x)
    ops.add_out(value, value, other)
    assert torch.equal(other, value + value) and torch.equal(x, value)


# ---- in place ----


def test_what_is_written_counts_its_version(ops: Any) -> None:
    a, b, out = numbers(10), numbers(10), torch.zeros(10, device="cuda")
    for times in (1, 2):
        ops.add_out(a, b, out)
        assert out._version == times and a._version == b._version == 0
    assert torch.equal(out, a + b)


def test_autograd_notices_a_write(ops: Any) -> None:
    a = numbers(10)
    w = torch.ones(10, device="cuda", requires_grad=True)
    loss = (w * a).sum()  # saves a
    ops.add_out(numbers(10), numbers(10), a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_view_is_written_through(ops: Any) -> None:
    base = torch.zeros(6, 8, device="cuda")
    a = numbers(8, 6)
    ops.add_out(a, a, base.t())
    assert torch.equal(base, (a + a).t())
    assert base._version >= 1


def test_out_is_written_in_place() -> None:
    x, y = numbers(40), torch.empty(40, device="cuda")
    pointer = y.data_ptr()
    assert wick.ops.addone(x, out=y) is y
    assert y.data_ptr() == pointer and torch.equal(y, x + 1) and y._version == 1
    with pytest.raises(RuntimeError, match="out for y is on cpu, but x is on cuda:0"):
        wick.ops.addone(x, out=torch.empty(40))


# ---- streams ----


def test_a_call_runs_on_the_current_stream(ops: Any) -> None:
    x = torch.zeros(1000, device="cuda")
    warm(ops.addone, x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        x.fill_(5)
        y = ops.addone(x)  # on another stream it would read zeros
    side.synchronize()
    assert torch.equal(y, torch.full_like(y, 6))


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t()])
def test_a_call_does_not_wait_for_the_gpu(ops: Any, view: Callable[..., torch.Tensor]) -> None:
    x, bias, scale = view(numbers(32, 32)), numbers(32), torch.tensor(2.0)
    warm(ops.scale_bias_relu_learned, x, bias, scale)
    warm(ops.add_out, x, x, torch.zeros_like(x))
    torch.cuda._sleep(SLEEP)
    asleep = torch.cuda.Event()
    asleep.record()
    out = torch.empty_like(x)
    y = ops.scale_bias_relu_learned(x, bias, scale)
    ops.add_out(x, x, out)
    assert not asleep.query(), "the calls came back after the GPU woke up"
    assert torch.equal(y, torch.relu(x * 2 + bias)) and torch.equal(out, x + x)


def test_every_thread_has_its_own_stream(ops: Any) -> None:
    warm(ops.addone, torch.zeros(4096, device="cuda"))
    failures: list[str] = []

    def work(k: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.full((4096,), float(k), device="cuda")
            for i in range(200):
                x = ops.addone(x)
                if i % 50 == 0:
                    ops.mul(x, x)
            stream.synchronize()
            if not torch.equal(x, torch.full_like(x, float(k + 200))):
                failures.append(f"thread {k} got {x[0].item()}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


# ---- CUDA graphs ----


def captured(run: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


def test_a_call_can_be_captured(ops: Any) -> None:
    x, bias, scale = numbers(16, 16), numbers(16), torch.tensor(3.0)
    out = torch.zeros(16, 16, device="cuda")

    def run() -> torch.Tensor:
        y = ops.scale_bias_relu_learned(x.t(), bias, scale)  # a view, and a number on the CPU
        ops.add_out(y, y, out)
        return ops.addone(y)

    graph, result = captured(run)
    for k in range(3):
        x.copy_(numbers(16, 16) + k)
        graph.replay()
        y = torch.relu(x.t() * 3 + bias)
        assert torch.equal(result, y + 1) and torch.equal(out, y + y)


def test_forward_and_backward_can_be_captured(ops: Any) -> None:
    x = numbers(32).requires_grad_()

    def run() -> torch.Tensor:
        return torch.autograd.grad(ops.mul(x, x).sum(), x)[0]

    graph, gradient = captured(run)
    with torch.no_grad():
        x.add_(1)
    graph.replay()
    assert torch.equal(gradient, 2 * x.detach())


# ---- gradients ----


def test_gradients_are_torchs(ops: Any) -> None:
    x, bias = numbers(9, 5).requires_grad_(), numbers(5).requires_grad_()
    mine = torch.autograd.grad((ops.scale_bias_relu(x, bias, 2.0) ** 2).sum(), (x, bias))
    theirs = torch.autograd.grad((torch.relu(x * 2 + bias) ** 2).sum(), (x, bias))
    for a, b in zip(mine, theirs, strict=True):
        assert a.is_cuda and torch.equal(a, b)


def test_a_backward_runs_on_its_forwards_stream(ops: Any) -> None:
    x = torch.ones(1000, device="cuda", requires_grad=True)
    warm(lambda: torch.autograd.grad(ops.mul(x, x).sum(), x))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        a = torch.full_like(x, 3).requires_grad_()
        loss = ops.mul(a, a).sum()
    loss.backward()  # from here, where the default stream is the current one
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(a.grad, torch.full_like(x, 6))


def test_without_grad_mode_parameters_are_plain(ops: Any) -> None:
    x = torch.nn.Parameter(numbers(20))
    with torch.no_grad():
        y = ops.addone(x)
    assert not y.requires_grad and torch.equal(y, x.detach() + 1)
    with torch.inference_mode():
        z = ops.addone(x)
        assert z.is_inference() and torch.equal(ops.addone(z), x + 2)


# ---- several devices in one call ----


def test_a_tensor_on_the_cpu_is_refused_by_name(ops: Any) -> None:
    x, y = numbers(4), torch.ones(4)
    with pytest.raises(RuntimeError, match="mul: b is on cpu, but a is on cuda:0"):
        ops.mul(x, y)
    with pytest.raises(RuntimeError, match="mul: b is on cuda:0, but a is on cpu"):
        ops.mul(y, x)
    with pytest.raises(RuntimeError, match="b is on cpu, but a is on cuda:0"):
        ops.mul(x, y.pin_memory())
    for other in range(1, torch.cuda.device_count()):
        with pytest.raises(RuntimeError, match=f"b is on cuda:{other}, but a is on cuda:0"):
            ops.mul(x, x.to(f"cuda:{other}"))


def test_meta_and_cuda_do_not_mix(ops: Any) -> None:
    with pytest.raises(RuntimeError, match="b is on meta, but a is on cuda:0"):
        ops.mul(numbers(4), torch.ones(4, device="meta"))
    with pytest.raises(RuntimeError, match="b is on cuda:0, but a is on meta"):
        ops.mul(torch.ones(4, device="meta"), numbers(4))


def test_a_sparse_tensor_is_refused(ops: Any) -> None:
    with pytest.raises(RuntimeError, match="x is sparse or packed"):
        ops.addone(numbers(3, 3).to_sparse())


def test_pinned_memory_is_the_cpus(ops: Any) -> None:
    x = torch.arange(8.0).pin_memory()
    y = ops.addone(x)
    assert y.device.type == "cpu" and torch.equal(y, x + 1)


def test_an_operator_without_a_cuda_version_says_what_it_has() -> None:
    op = wick.load(source=spell(ADD, "only_for_the_cpu")).only_for_the_cpu
    assert torch.equal(op(torch.zeros(2)), torch.ones(2))
    for door in (op, torch.ops.local.only_for_the_cpu):
        with pytest.raises(
            RuntimeError, match="only_for_the_cpu: x is on cuda.*only a CPU version"
        ):
            door(numbers(2))


# ---- numbers that stay on the CPU ----


@pytest.mark.parametrize("pinned", [False, True])
def test_a_number_may_stay_on_the_cpu(ops: Any, pinned: bool) -> None:
    x, bias, scale = numbers(6, 4), numbers(4), torch.tensor(2.5)
    if pinned:
        scale = scale.pin_memory()
    y = ops.scale_bias_relu_learned(x, bias, scale)
    scale.fill_(100)  # too late to matter
    assert torch.equal(y, torch.relu(x * 2.5 + bias))
    assert torch.equal(y, ops.scale_bias_relu_learned(x, bias, torch.tensor(2.5, device="cuda")))


def test_numbers_go_with_numbers(ops: Any) -> None:
    a, b = torch.tensor(3.0, device="cuda"), torch.tensor(4.0)
    assert torch.equal(ops.mul(a, b), a * 4) and torch.equal(ops.mul(b, a), a * 4)
    assert ops.mul(b, b).device.type == "cpu"


def test_a_vector_of_one_is_no_number(ops: Any) -> None:
    with pytest.raises(RuntimeError, match="b is on cpu"):
        ops.mul(torch.ones(1, device="cuda"), torch.ones(1))


# ---- how it is done ----


def test_cuda_tensors_are_read_in_place() -> None:
    assert _calls.mode != "internals" or "devices" in _calls.learnt


def test_importing_wick_does_not_start_cuda() -> None:
    code = (
        "import torch, wick; assert not torch.cuda.is_initialized()\n"
        "import os; child = os.fork()\n"
        "assert wick.ops.addone(torch.ones(3, device='cuda')).tolist() == [2.0] * 3\n"
        "os._exit(0) if child == 0 else None\n"
        "assert os.waitpid(child, 0)[1] == 0"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_profiler_sees_operators_and_kernels(ops: Any) -> None:
    from torch.profiler import ProfilerActivity, profile

    x = numbers(1000)
    warm(ops.addone, x)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        ops.addone(x)
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    assert "wick::addone" in names
    kernels = [e.name for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert any("addone" in name for name in kernels), kernels
