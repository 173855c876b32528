"""The tour: what Wick does, shown live in a few seconds.

    python examples/tour.py            numbers, tensors, errors, training, times
    python examples/tour.py --peers    the same operator in C++ as well (half a minute)

Every figure is measured while you watch. With `rich` installed the output has frames; without it,
plain text.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import wick

try:
    from rich.console import Console
    from rich.panel import Panel
    from rich.syntax import Syntax
    from rich.table import Table

    _console = Console(highlight=False)
    _console.width = min(100, _console.width) if _console.is_terminal else 100
except ImportError:
    _console = None

HERE = os.path.dirname(os.path.abspath(__file__))

SOURCE = """\
#include <wick/op.h>

WICK_OP(scale_bias_relu, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
                         " where T: f16 bf16 f32 f64");

WICK_IMPL wick_status scale_bias_relu_cpu(wick_ctx *ctx, const T *x, const T *bias,
                                          double scale, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            A v = wick_A(x[n * C + c]) * (A)scale + wick_A(bias[c]);
            y[n * C + c] = wick_T(v < 0 ? 0 : v);
        }
    }
    return WICK_OK;
}
"""

CPP_SOURCE = """\
at::Tensor scale_bias_relu(const at::Tensor &x, const at::Tensor &bias, double scale) {
    TORCH_CHECK(x.scalar_type() == at::kFloat && bias.scalar_type() == at::kFloat);
    TORCH_CHECK(x.dim() >= 1 && bias.dim() == 1 && bias.size(0) == x.size(-1));
    at::Tensor xc = x.contiguous(), bc = bias.contiguous(), y = at::empty_like(xc);
    const float *px = xc.data_ptr<float>(), *pb = bc.data_ptr<float>();
    float *py = y.data_ptr<float>();
    int64_t C = x.size(-1), N = C ? x.numel() / C : 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++) {
            float v = px[n * C + c] * (float)scale + pb[c];
            py[n * C + c] = v < 0 ? 0 : v;
        }
    return y;
}
TORCH_LIBRARY(tour_cpp, m) {
    m.def("scale_bias_relu(Tensor x, Tensor bias, float scale) -> Tensor");
}
TORCH_LIBRARY_IMPL(tour_cpp, CPU, m) { m.impl("scale_bias_relu", &scale_bias_relu); }
"""


# ---- output: rich where it is, plain text elsewhere ----


def say(text: str = "") -> None:
    if _console:
        _console.print(text, markup=False)
    else:
        for line in text.split("\n"):
            print("\n".join(textwrap.wrap(line, 100)))


def heading(text: str) -> None:
    if _console:
        _console.print()
        _console.rule(f"[bold]{text}[/bold]", align="left")
    else:
        print(f"\n== {text} " + "=" * max(0, 95 - len(text)))


def show_c(code: str, title: str) -> None:
    if _console:
        colours = {"theme": "ansi_dark", "background_color": "default"}
        body = Syntax(code.rstrip(), "c", word_wrap=True, **colours)
        frame = {"title_align": "left", "border_style": "dim", "expand": False}
        _console.print(Panel(body, title=title, **frame))
    else:
        print(f"-- {title}")
        print(code.rstrip())


def show_call(code: str, result: str) -> None:
    """A line of Python and what it gave."""
    if _console:
        _console.print(f">>> {code}", style="cyan", markup=False)
    else:
        print(f">>> {code}")
    say(result)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if _console:
        table = Table(title=title, title_justify="left", title_style="bold")
        for k, column in enumerate(columns):
            table.add_column(column, justify="right" if k else "left")
        for row in rows:
            table.add_row(*row)
        _console.print(table)
        return
    widths = [max(len(r[k]) for r in [columns, *rows]) for k in range(len(columns))]
    print(title)
    for row in [columns, ["-" * w for w in widths], *rows]:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        print("  " + "  ".join(cells).rstrip())


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows that something long is going on: a spinner with a clock, or a dot a second."""
    if _console and _console.is_terminal:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=_console, transient=True) as progress:
            progress.add_task(what)
            yield
        return
    done = threading.Event()

    def dots() -> None:
        while not done.wait(1.0):
            print(".", end="", flush=True)

    print(what, end=" ", flush=True)
    thread = threading.Thread(target=dots, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        print()


# ---- measuring ----


def seconds(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = f()
    return time.perf_counter() - start, result


def measure_calls(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds per call of each way. They take turns, so that a busy moment hits all alike."""
    runs: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(16):
        for name, f in ways.items():
            start = time.perf_counter()
            for _ in range(400):
                f()
            if turn:  # the first turn warms up
                runs[name].append((time.perf_counter() - start) / 400)
    return {name: statistics.median(values) * 1e6 for name, values in runs.items()}


def time_text(s: float) -> str:
    return f"{s * 1e3:.0f} ms" if s < 1 else f"{s:.1f} s"


# ---- the stops ----


def numbers() -> None:
    heading("1  A C function of one number")
    path = os.path.join(HERE, "addone.c")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    show_c(text[text.index("#include") :], "examples/addone.c")
    took, loaded = seconds(lambda: wick.load(path))
    built = f"built and loaded in {time_text(took)}"
    show_call('addone = wick.load("examples/addone.c").addone', built)
    show_call("addone(1)", repr(loaded.addone(1)))
    assert loaded.addone(1) == 2


def tensors() -> tuple[Any, float]:
    heading("2  An operator on tensors")
    show_c(SOURCE, "SOURCE, text in this program")
    took, op = seconds(lambda: wick.load(source=SOURCE, name="tour.c"))
    built = f"built and loaded in {time_text(took)}"
    show_call('op = wick.load(source=SOURCE, name="tour.c")', built)
    say("The signature is the only declaration: checks, output, torch schema come from it.")
    schema = torch.ops.local.scale_bias_relu.default._schema
    show_call("torch.ops.local.scale_bias_relu.default._schema", str(schema))
    say()

    torch.manual_seed(0)
    rows = []
    for dtype in (torch.float32, torch.float16):
        x, bias = torch.randn(64, 256).to(dtype), torch.randn(256).to(dtype)
        first, y = seconds(lambda x=x, bias=bias: op.scale_bias_relu(x, bias, 2.0))
        # torch rounds to f16 after each of three steps, Wick once: compared in f32, rounded once.
        expected = torch.relu(x.float() * 2.0 + bias.float()).to(dtype)
        same = torch.equal(y, expected)
        assert same, f"{dtype} differs from torch"
        rows.append((str(dtype), str(list(y.shape)), "every bit", time_text(first)))
    show_table(
        "op.scale_bias_relu(x, bias, 2.0)",
        ["dtype", "result", "equals relu(x * 2.0 + bias), computed in f32", "first call"],
        rows,
    )
    say(
        "One C body, four element types: f32 is compiled by the load, the others when first called."
    )
    return op, took


def errors(op: Any) -> None:
    heading("3  Mistakes are caught")
    x = torch.randn(64, 256)
    say("A wrong shape, by either door:")
    for text, call in (
        ("op.scale_bias_relu(x, torch.randn(255))", op.scale_bias_relu),
        ("torch.ops.local.scale_bias_relu(x, torch.randn(255))", torch.ops.local.scale_bias_relu),
    ):
        try:
            call(x, torch.randn(255))
        except RuntimeError as error:
            show_call(text, f"RuntimeError: {error}")
        else:
            raise AssertionError("a wrong shape was accepted")
    say()
    say("A typo in C, with file and line:")
    broken = SOURCE.replace("wick_A(bias[c])", "wick_A(bais[c])")
    try:
        wick.load(source=broken, name="broken.c")
    except wick.BuildError as error:
        show_call('wick.load(source=broken, name="broken.c")', f"wick.BuildError: {error}")
    else:
        raise AssertionError("broken source was built")
    say()
    say("A function that does not match its signature does not build:")
    broken = SOURCE.replace("double scale", " float scale")
    try:
        wick.load(source=broken, name="broken.c")
    except wick.BuildError as error:
        text = str(error)
        short = text.split("; have", 1)[0] + "; ...\n" + text[text.index("the signature") :]
        show_call('wick.load(source=broken, name="broken.c")', f"wick.BuildError: {short}")
    else:
        raise AssertionError("a mismatch was built")


def training() -> None:
    heading("4  Training")
    path = os.path.join(HERE, "training", "snake.c")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    say("An activation with a parameter of its own. snake_backward is the gradient, by its name:")
    declarations = text[text.index("WICK_OP(") : text.index("WICK_IMPL")]
    backward = text[text.index("snake_backward_cpu(") :]
    loop = backward[backward.index("    for (int64_t c") : backward.index("    return")]
    both = f"{declarations}/* in snake_backward_cpu: */\n{textwrap.dedent(loop)}"
    show_c(both, "examples/training/snake.c, in part")
    sys.path.insert(0, os.path.dirname(path))
    import train  # examples/training/train.py: the module around it, the data, the loop

    model = train.make_model()
    took, losses = seconds(lambda: train.train(model, *train.make_data(), steps=300))
    done = f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in 300 steps of Adam, {time_text(took)}"
    show_call("train(Sequential(Linear(1, 32), Snake(32), Linear(32, 1)), x, waves)", done)
    assert losses[-1] < losses[0] / 10


def python_custom_op() -> Any:
    """The same operator as torch.library.custom_op makes it from Python."""

    @torch.library.custom_op("tour_python::scale_bias_relu", mutates_args=())
    def scale_bias_relu(x: torch.Tensor, bias: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.relu(x * scale + bias)

    return scale_bias_relu


def build_cpp() -> tuple[float, Any]:
    """The same operator in C++, by torch.utils.cpp_extension, into an empty folder."""
    from torch.utils import cpp_extension

    # ninja, which cpp_extension wants, may lie beside this Python without being on the PATH.
    beside = os.path.dirname(sys.executable)
    os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory(prefix="wick-tour-") as folder:
        took, _ = seconds(
            lambda: cpp_extension.load_inline(
                "tour_cpp",
                CPP_SOURCE,
                is_python_module=False,
                build_directory=folder,
                extra_cflags=["-O3"],
            )
        )
    return took, torch.ops.tour_cpp.scale_bias_relu


def times(op: Any, build: float, with_peers: bool) -> None:
    heading("5  Times, measured now")
    x, bias = torch.randn(8, 16), torch.randn(16)
    out = torch.empty_like(x)
    direct, dispatcher = op.scale_bias_relu, torch.ops.local.scale_bias_relu
    custom = python_custom_op()
    builds = [("Wick: one C file, f32, from nothing to callable", time_text(build))]
    ways = {
        "Wick, direct, into out=": lambda: direct(x, bias, 2.0, out=out),
        "Wick, direct": lambda: direct(x, bias, 2.0),
        "Wick, torch.ops": lambda: dispatcher(x, bias, 2.0),
    }
    if with_peers:
        try:
            with waiting("building the same operator with torch.utils.cpp_extension"):
                took, cpp = build_cpp()
        except Exception as error:  # a missing compiler or ninja must not end the tour
            say(f"torch.utils.cpp_extension could not build it: {str(error).splitlines()[0]}")
        else:
            assert torch.equal(cpp(x, bias, 2.0), direct(x, bias, 2.0))
            builds.append(("C++: the same loop, torch.utils.cpp_extension", time_text(took)))
            builds.append(("", f"{took / build:.0f} times as long"))
            ways["C++, torch.ops"] = lambda: cpp(x, bias, 2.0)
    relu = "torch.relu(x), one of the three steps"
    ways[relu] = lambda: torch.relu(x)
    ways["torch.relu(x * scale + bias)"] = lambda: torch.relu(x * 2.0 + bias)
    ways["the same in a Python torch.library.custom_op"] = lambda: custom(x, bias, 2.0)
    us = measure_calls(ways)
    show_table("Build", ["operator", "time"], builds)
    show_table(
        "Call, f32 [8, 16]: mostly what a call costs before any arithmetic",
        ["way", "us per call", "x torch.relu"],
        [(name, f"{value:.2f}", f"{value / us[relu]:.2f}") for name, value in us.items()],
    )
    if not with_peers:
        say("The C++ build for comparison takes half a minute: make run ARGS=--peers")


def main() -> int:
    parser = argparse.ArgumentParser(description="A tour of Wick in a few seconds.")
    parser.add_argument("--peers", action="store_true", help="C++ as well (half a minute)")
    arguments = parser.parse_args()
    start = time.perf_counter()
    say(
        f"Wick {wick.__version__}: PyTorch operators in plain C.   torch {torch.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs"
    )
    # A cache of its own: what is measured here is measured cold, also on the second tour.
    with tempfile.TemporaryDirectory(prefix="wick-tour-") as cache:
        os.environ["WICK_CACHE_DIR"] = cache
        numbers()
        op, build = tensors()
        errors(op)
        training()
        times(op, build, arguments.peers)
        heading("Next")
        say("docs/first-operator.md   write an operator of your own, in half an hour")
        say("docs/errors.md           what each kind of mistake says")
        say("examples                 training on two processes, and extensions that were ported")
        say("examples/c_host          call an operator from a C program, without Python and torch")
        say(f"\nThe tour took {time.perf_counter() - start:.1f} s.")
        return 0


if __name__ == "__main__":
    sys.exit(main())
