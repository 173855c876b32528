"""A torch that seems to have a GPU: what is put there stays on the CPU, and streams are none.

On the path of a process (PYTHONPATH) it makes `wick check --device cuda` and `wick bench --device cuda`
go their whole way without one, so that a mistake in that way is found where there is no GPU: an
operator's CPU version is what runs. In the processes that judge, tensors know where they are, and those of
both sides cannot be mixed (devices.py). What a GPU alone can show (streams, a captured graph, memory of
the device) it cannot.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Put = Callable[[Any], Any]  # a tensor, of which it is remembered that it is on the GPU
CAPACITY = 4 << 30  # bytes that seem to be free, and there
MAKERS = [
    "empty",
    "zeros",
    "full",
    "ones",
    "arange",
    "tensor",
    "as_tensor",
    "rand",
    "randn",
    "randint",
]


def _is_there(device: Any) -> bool:
    return getattr(device, "type", str(device)).startswith("cuda")


def _stays(function: Callable[..., Any], put: Put) -> Callable[..., Any]:
    """The same without a device that would be the GPU."""

    @functools.wraps(function)
    def on_cpu(*args: Any, **keywords: Any) -> Any:
        if not _is_there(keywords.get("device")):
            return function(*args, **keywords)
        return put(function(*args, **{**keywords, "device": "cpu"}))

    return on_cpu


class Stream:
    def __init__(self, *_: Any) -> None:
        pass

    def wait_event(self, _: Any) -> None:
        pass


class Event:
    def __init__(self, **_: Any) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return 1e3 * (end.at - self.at)


class Properties:
    name = "a stand-in"
    major, minor, multi_processor_count = 0, 0, 1
    total_memory, L2_cache_size = CAPACITY, 1 << 20


class Graph:
    """What was called while it was captured is called again."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def replay(self) -> None:
        for call in self.calls:
            call()


def install(torch: Any, put: Put = lambda x: x) -> None:
    cuda = torch.cuda
    for name in MAKERS:
        setattr(torch, name, _stays(getattr(torch, name), put))
    generator = torch.Generator

    class Generator:
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator("cpu" if _is_there(device) else device)

    torch.Generator = Generator
    to = torch.Tensor.to

    @functools.wraps(to)
    def to_cpu(x: Any, *args: Any, **keywords: Any) -> Any:
        if args and _is_there(args[0]):
            return x if x.is_cuda else put(to(x, "cpu", copy=True))
        return to(x, *args, **keywords)

    torch.Tensor.to = to_cpu
    capturing: list[Graph] = []

    @contextlib.contextmanager
    def graph(there: Graph) -> Iterator[None]:
        capturing.append(there)
        try:
            yield
        finally:
            capturing.pop()

    cuda.is_available = lambda: True
    cuda.Stream, cuda.Event = Stream, Event
    cuda.default_stream = Stream
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.synchronize = lambda _=None: None
    cuda._sleep = lambda _: None
    cuda.CUDAGraph, cuda.graph = Graph, graph
    cuda.current_device = lambda: 0
    cuda.device = lambda _: contextlib.nullcontext()
    cuda.get_device_properties = lambda _=None: Properties
    cuda.get_device_name = lambda _=None: Properties.name
    cuda.mem_get_info = lambda _=None: (CAPACITY, CAPACITY)
    cuda.memory_reserved = cuda.memory_allocated = lambda _=None: 0
    _record(capturing)


def _record(capturing: list[Graph]) -> None:
    """Calls of operators are part of a graph while one is captured."""
    from wick.check.operator import Operator

    find = Operator.__dict__["function"].func

    def found(self: Any) -> Any:
        function = find(self)

        def call(*args: Any, **keywords: Any) -> Any:
            given = function(*args, **keywords)
            if capturing:
                results = given if isinstance(given, tuple) else (given,)

                def again() -> None:
                    new = function(*args, **keywords)
                    for to, value in zip(results, new if isinstance(new, tuple) else (new,)):
                        if to is not None:
                            to.copy_(value)

                capturing[-1].calls.append(again)
            return given

        call.__self__ = function.__self__
        return call

    recorded = functools.cached_property(found)
    recorded.__set_name__(Operator, "function")
    Operator.function = recorded


STARTED = " ".join(sys.orig_argv)
if "wick.check.worker" in STARTED:
    import devices
    import torch

    devices.watch(torch)
    install(torch, devices.put)
elif "-m wick" in STARTED or "wick.bench.again" in STARTED:
    import torch

    install(torch)
