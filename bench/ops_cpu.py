"""The CPU operators against torch and against a plain copy of the same bytes.

    python bench/ops_cpu.py [--quick]

Medians of samples taken in turn (wick/bench), so that a busy machine slows all alike. Only the ratios
mean anything on another machine; targets stand beside them.
"""

import statistics
import sys

import torch

import wick
from wick.bench.host import Host
from wick.bench.timing import rounds

QUICK = "--quick" in sys.argv
SAMPLE_S = 1e-3


def medians(host, candidates, repeats):
    """Microseconds per call for each of {name: function}."""
    for call in candidates.values():
        host.learn(call)
    runs = {name: host.warm("f()", {"f": call}) for name, call in candidates.items()}
    n = max(3, repeats // 4 if QUICK else repeats)
    with host.quiet():
        times = rounds(runs, n_rounds=n, sample_s=SAMPLE_S)
    return {name: statistics.median(t) * 1e6 for name, t in times.items()}


def repeats_for(elements):
    return 9 if elements >= 1 << 25 else 31


def verdict(ratio, target, at_least):
    met = ratio >= target if at_least else ratio <= target
    sign = ">=" if at_least else "<="
    return f"{ratio:6.2f}  target {sign} {target:.2f}  {'met' if met else 'MISSED'}"


def scale_bias_relu(host, rows, columns):
    x, bias = torch.randn(rows, columns), torch.randn(columns)
    y, work = torch.zeros_like(x), torch.zeros_like(x)

    def eager_out():
        torch.mul(x, 1.5, out=work)
        torch.add(work, bias, out=work)
        torch.clamp_min(work, 0, out=work)

    t = medians(
        host,
        {
            "ours, new output": lambda: wick.ops.scale_bias_relu(x, bias, 1.5),
            "ours, out=": lambda: wick.ops.scale_bias_relu(x, bias, 1.5, out=y),
            "eager relu(x*s+b)": lambda: torch.relu(x * 1.5 + bias),
            "eager, out=": eager_out,
            "copy into y": lambda: y.copy_(x),
        },
        repeats_for(x.numel()),
    )
    traffic = 2 * x.numel() * x.element_size()
    print(f"\nscale_bias_relu f32 ({rows}, {columns}), {torch.get_num_threads()} thread(s)")
    for name, us in t.items():
        rate, share = traffic / us / 1e3, t["copy into y"] / us
        print(f"  {name:20} {us:11.1f} us  {rate:7.1f} GB/s  {share:5.0%} of the copy")
    eager = t["eager relu(x*s+b)"] / t["ours, new output"]
    floor = t["ours, out="] / t["copy into y"]
    print(f"  eager / ours, both with a new output  {verdict(eager, 2.0, True)}")
    print(f"  eager out= / ours out=                {t['eager, out='] / t['ours, out=']:6.2f}")
    print(f"  ours out= / copy                      {verdict(floor, 1.15, False)}")


def against_torch(host, title, elements, ours, theirs):
    """Level with torch is the target; 0.9 leaves room for the noise of one run."""
    t = medians(host, {"ours": ours, "torch": theirs}, repeats_for(elements))
    ratio = t["torch"] / t["ours"]
    print(f"  {title:42} {t['ours']:11.1f} us {t['torch']:11.1f} us  {verdict(ratio, 0.9, True)}")


def elementwise(host, dtype, kind, n):
    a, b = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    y, x = torch.zeros_like(a), a.view(-1, 2048)
    bias, z = b[:2048].clone(), y.view(-1, 2048)
    for name, ours, theirs in (
        ("relu", lambda: wick.ops.relu(a, out=y), lambda: torch.clamp_min(a, 0, out=y)),
        ("addone", lambda: wick.ops.addone(a, out=y), lambda: torch.add(a, 1, out=y)),
        ("mul", lambda: wick.ops.mul(a, b, out=y), lambda: torch.mul(a, b, out=y)),
        (
            "muladd",
            lambda: wick.ops.muladd(a, b, 0.5, out=y),
            lambda: torch.mul(a, b, out=y).add_(0.5),
        ),
        ("add_out", lambda: wick.ops.add_out(a, b, y), lambda: torch.add(a, b, out=y)),
        (
            "scale_bias_relu",
            lambda: wick.ops.scale_bias_relu(x, bias, 1.5, out=z),
            lambda: torch.mul(x, 1.5, out=z).add_(bias).relu_(),
        ),
    ):
        against_torch(host, f"{name} {kind} ({n}), out=", n, ours, theirs)


def sums(host, dtype, kind):
    x = torch.randn(1024, 2048).to(dtype)
    n = x.numel()
    against_torch(
        host,
        f"reduce_sum {kind} (1024, 2048)",
        n,
        lambda: wick.ops.reduce_sum(x),
        lambda: torch.sum(x),
    )
    rows = [(-1, 32, 1), (-1, 256, 1), (-1, 2048, 1)]
    for shape in [*rows, (1, -1, 8), (64, -1, 64), (1, -1, 2048)]:
        v = x.view(shape)
        against_torch(
            host,
            f"reduce_sum_dim {kind} {tuple(v.shape)}",
            n,
            lambda v=v: wick.ops.reduce_sum_dim(v),
            lambda v=v: torch.sum(v, 1),
        )


def others(host):
    print(f"\n  {torch.get_num_threads()} thread(s)".ljust(46), end="")
    print("        ours          torch   torch/ours")
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        kind = str(dtype).removeprefix("torch.")
        elementwise(host, dtype, kind, 1 << 20)
        elementwise(host, dtype, kind, 1 << 24)
        sums(host, dtype, kind)
    x = torch.randn(1 << 26)
    against_torch(
        host,
        "reduce_sum float32 (67108864)",
        x.numel(),
        lambda: wick.ops.reduce_sum(x),
        lambda: torch.sum(x),
    )


def main():
    before = torch.get_num_threads()
    for threads in (1, 2):
        host = Host(threads)
        scale_bias_relu(host, 1024, 2048)
        scale_bias_relu(host, 16384, 4096)
        others(host)
    torch.set_num_threads(before)


if __name__ == "__main__":
    main()
