"""WICK_AT, and the debug and sanitized builds that docs/debugging.md describes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import find_wick

INCLUDE = Path(__file__).resolve().parents[2] / "include"

ROW_SUMS = """\
#include <wick/op.h>
WICK_OP(row_sums, "x: strided T[N, C], past: int = 0 -> y: T[N] where T: f32 f64");
WICK_IMPL wick_status row_sums_cpu(wick_ctx *ctx, const wick_view *x, int64_t past, T *y, \
int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        A sum = 0;
        for (int64_t c = 0; c < C + past; c++)
            sum += wick_A(WICK_AT(const T, x, n, c));
        y[n] = wick_T(sum);
    }
    return WICK_OK;
}
"""

CALL = """\
import sys, torch, wick
op = wick.load(sys.argv[1]).row_sums
x = torch.arange(12.0).reshape(3, 4).t()
assert torch.equal(op(x), x.sum(1)), op(x)
print("right", flush=True)
op(x, int(sys.argv[2]))
"""

# One element of views of one to four dims, none contiguous; then, by the argument, what is wrong.
PROGRAM = """\
#include <wick/op.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    static float data[1000];
    static const int64_t size[4] = {2, 3, 4, 5}, stride[4] = {1, 2, 10, 100};
    const wick_view one = {data, 1, size, stride}, two = {data, 2, size, stride};
    const wick_view three = {data, 3, size, stride}, four = {data, 4, size, stride};
    const wick_view *none = NULL;
    volatile int wrong = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < 1000; i++) data[i] = (float)i;
    if (WICK_AT(const float, &one, 1) != 1) return 1;
    if (WICK_AT(const float, &two, 1, 2) != 5) return 2;
    if (WICK_AT(const float, &three, 1, 2, 3) != 35) return 3;
    if (WICK_AT(const float, &four, 1, 2, 3, 4) != 435) return 4;
    WICK_AT(float, &two, 0, 1 + 1) = -1;
    if (data[4] != -1) return 5;
    if (wrong == 1) return WICK_AT(const float, &two, 1, 3) > 0;
    if (wrong == 2) return WICK_AT(const float, &four, 1 - wrong, 0, 0, 0) > 0;
    if (wrong == 3) return WICK_AT(const float, &two, 1) > 0;
    if (wrong == 4) return WICK_AT(const float, none, 0) > 0;
    return 0;
}
"""

WRONG = {
    1: "index 1 of &two is 3, but its size is 3",
    2: "index 0 of &four is -1, but its size is 2",
    3: "&two has 2 dims, but 1 indices are given",
    4: "none is NULL (absent)",
}


@pytest.fixture(params=["c11 cc", "c11 clang-14", "c++17 g++", "c++17 clang++-14"])
def build_program(request, tmp_path):
    standard, compiler = request.param.split()
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "at.c").write_text(PROGRAM)

    def build(*flags):
        language = ["-x", "c++" if "++" in standard else "c", f"-std={standard}", f"-I{INCLUDE}"]
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror"]
        subprocess.run(
            [compiler, *language, *warnings, *flags, "at.c", "-o", "at"], cwd=tmp_path, check=True
        )
        return tmp_path / "at"

    return build


def test_at_reads_and_writes_the_element(build_program):
    for flags in (["-O0"], ["-O2"], ["-O0", "-DWICK_DEBUG=1"]):
        assert subprocess.run([build_program(*flags)]).returncode == 0


def test_at_checks_in_a_debug_build(build_program):
    program = build_program("-DWICK_DEBUG=1")
    lines = PROGRAM.splitlines()
    for wrong, words in WRONG.items():
        done = subprocess.run([program, str(wrong)], capture_output=True, text=True)
        line = next(i for i, text in enumerate(lines, 1) if f"wrong == {wrong}" in text)
        assert done.stderr == f"at.c:{line}: WICK_AT: {words}\n"
        assert done.returncode in (-signal.SIGILL, -signal.SIGTRAP)


def call(folder, *args, **environment):
    return subprocess.run(
        [sys.executable, "-c", CALL, *args],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def build_operator(folder, *options):
    (folder / "row_sums.c").write_text(ROW_SUMS)
    command = [find_wick(), "build", "-q", "--native", *options, "row_sums.c", "-o", "row_sums.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_debug_build_stops_at_the_line(tmp_path):
    build_operator(tmp_path, "--debug")
    assert call(tmp_path, "./row_sums.so", "0").returncode == 0
    done = call(tmp_path, "./row_sums.so", "1")
    assert done.stdout == "right\n" and done.returncode in (-signal.SIGILL, -signal.SIGTRAP)
    assert "row_sums.c:9: WICK_AT: index 1 of x is 3, but its size is 3\n" in done.stderr


def test_a_debug_build_has_the_authors_lines(tmp_path):
    build_operator(tmp_path, "--debug")
    if not shutil.which("objdump"):
        pytest.skip("objdump is not installed")
    done = subprocess.run(
        ["objdump", "--dwarf=decodedline", "row_sums.so"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "row_sums.c" in done.stdout


def test_a_sanitized_build_reports(tmp_path):
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("the compiler has no AddressSanitizer")
    build_operator(tmp_path, "--sanitize")
    settings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    assert call(tmp_path, "./row_sums.so", "0", **settings).returncode == 0
    done = call(tmp_path, "./row_sums.so", "1000", **settings)
    assert done.stdout == "right\n" and done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr and "row_sums.c:9" in done.stderr
