"""wick show: a signature in words, and what is made of a source, down to its loops."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import RELU, runner

WORDS = """/* words -- everything that a signature can say */
#include <wick/op.h>
WICK_OP(words, "x: strided T[*N, C], w: T[H*4, H+1], idx!: i32[B], bias?: T[C], k: int, s: shape[*N],"
               " mode: 'sum'|'mean' = 'mean', flag: bool = true"
               " -> y: T[*N, k], n?: A[B], count: int"
               " where T: f32 f64 scratch row: f32[C] batch N autocast f32");
WICK_IMPL wick_status words_cpu(wick_ctx *ctx, const wick_view *x, const T *w, int32_t *idx,
                                const T *bias, int64_t k, int mode, bool flag, T *y, A *n,
                                int64_t *count, float *row, int64_t N, int64_t C, int64_t H, int64_t B)
{
    (void)ctx, (void)x, (void)w, (void)idx, (void)bias, (void)mode, (void)flag, (void)n, (void)row;
    for (int64_t i = 0; i < N * k; i++) y[i] = 0;
    *count = C + H + B;
    return WICK_OK;
}
"""
LOOPS = """/* loops -- one that vectorises, one that cannot */
#include <wick/op.h>
WICK_OP(add, "x: f32[N], y: f32[N] -> z: f32[N]");
WICK_OP(mix, "x: f32[N] -> z: f32[N]");

WICK_IMPL wick_status add_cpu(wick_ctx *ctx, const float *x, const float *y, float *z, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        z[i] = x[i] + y[i];
    return WICK_OK;
}

WICK_IMPL wick_status mix_cpu(wick_ctx *ctx, const float *x, float *z, int64_t N)
{
    float state = 0;
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        z[i] = state = state / (x[i] + state);
    return WICK_OK;
}
"""
BESIDE = """/* shares -- a sum, which is added in order, beside a loop that vectorises */
#include <wick/op.h>
WICK_OP(shares, "x: f32[N] -> z: f32[N]");

WICK_IMPL wick_status shares_cpu(wick_ctx *ctx, const float *x, float *z, int64_t N)
{
    float sum = 0;
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        sum += x[i];
    for (int64_t i = 0; i < N; i++)
        z[i] = x[i] / sum;
    return WICK_OK;
}
"""
KERNEL = """/* twice -- y = 2 x */
#include <wick/op.h>
WICK_OP(twice, "x: T[*N] -> y: T[*N] where T: f32 f64");
static __global__ void twice_kernel(const T *x, T *y, int64_t N)
{
    for (int64_t i = wick_thread(); i < N; i += wick_threads())
        y[i] = x[i] + x[i];
}
WICK_IMPL wick_status twice_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    return WICK_LAUNCH(ctx, twice_kernel, wick_1d(wick_ceil_div(N, 256)), wick_1d(256), 0, x, y, N);
}
"""


@pytest.fixture
def wick(tmp_path: Path):
    for name, text in (
        ("relu.c", RELU),
        ("words.c", WORDS),
        ("loops.c", LOOPS),
        ("shares.c", BESIDE),
        ("twice.cu", KERNEL),
    ):
        (tmp_path / name).write_text(text)
    return runner(tmp_path)


# ---- words ----


def test_a_signature_in_words(wick) -> None:
    done = wick("show", "words.c")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    assert said == [
        "  takes    x            strided T[*N, C]     tensor of f32 or f64, with its strides",
        "  takes    w            T[H*4, H+1]          tensor of f32 or f64",
        "  takes    idx          i32[B]               tensor of i32, written in place",
        "  takes    bias         T[C]                 tensor of f32 or f64, optional",
        "  takes    k            int                  a plain value",
        "  takes    s            shape[*N]            only its sizes",
        "  takes    mode         'sum'|'mean'         a plain value, 'mean' if left out",
        "  takes    flag         bool                 a plain value, true if left out",
        "  returns  y            T[*N, k]             tensor of f32 or f64",
        "  returns  n            A[B]                 tensor of f32 or f64, optional",
        "  returns  count        int                  a plain value",
        "  scratch  row          f32[C]               tensor of f32",
        "  dim      N            the leading dims of x, s, y, any number of them; in C their product;"
        " each is computed by itself",
        "  dim      C            x.shape[-1], bias.shape[0]",
        "  dim      H            solved from H*4 = w.shape[0]",
        "  dim      B            idx.shape[0], n.shape[0]",
        "  dim      k            the value of k",
        "  autocast f32: floats of fewer bits arrive as f32",
        '  schema   words(Tensor x, Tensor w, Tensor(a!) idx, Tensor? bias, SymInt k, SymInt[] s, str mode="mean",'
        " bool flag=True, *, bool want_n=True) -> (Tensor, Tensor?, int)",
        "  in C     wick_status words_cpu(wick_ctx *ctx, const wick_view *x, const T *w, int32_t *idx,"
        " const T *bias, int64_t k, int mode, bool flag, T *y, A *n, int64_t *count, float *row, int64_t N,"
        " int64_t C, int64_t H, int64_t B)",
    ]


def test_a_gradient_is_named_with_what_it_keeps(wick) -> None:
    text = RELU + RELU[RELU.index("WICK_OP") :].replace("relu", "relu_backward").replace(
        "x: T[*N] -> y: T[*N] where T: f32 f64", "dy: T[*N], y: T[*N] -> dx: T[*N]"
    )
    (wick.folder / "both.c").write_text(text)
    said = wick("show", "both.c").stdout
    assert "  gradient relu_backward                     saves y\n" in said
    assert said.count("\n  gradient ") == 1
    assert "\n  gradient " not in wick("show", "both.c", "--schema").stdout


def test_parts_are_printed_one_after_the_other(wick) -> None:
    parts = [wick("show", "relu.c", part).stdout for part in ("--schema", "--prototype", "--stub")]
    assert wick("show", "relu.c", "--stub", "--schema", "--prototype").stdout == "".join(parts)
    assert all(parts)


@pytest.mark.parametrize("devices", [("cpu",), ("cuda",), ("cpu", "cuda")])
def test_a_prototype_for_each_device_that_there_is_a_version_for(wick, devices) -> None:
    parameters = "wick_ctx *ctx, const float *x, float *y, int64_t N"
    bodies = "".join(
        f"WICK_IMPL wick_status both_{device}({parameters})\n"
        "{ (void)ctx, (void)x, (void)y, (void)N; return WICK_OK; }\n"
        for device in devices
    )
    (wick.folder / "both.c").write_text(
        f'#include <wick/op.h>\nWICK_OP(both, "x: f32[N] -> y: f32[N]");\n{bodies}'
    )
    lines = [f"wick_status both_{device}({parameters})" for device in devices]
    assert wick("show", "both.c", "--prototype").stdout.splitlines() == lines
    said = wick("show", "both.c").stdout
    assert ("\n  in C     wick_status both_cpu(" in said) == ("cpu" in devices)
    assert ("\n  on a GPU wick_status both_cuda(" in said) == ("cuda" in devices)
    assert wick("build", "--native", "both.c", "-o", "both.so").returncode == 0
    assert wick("show", "./both.so", "--prototype").stdout.splitlines() == lines


def test_an_operator_by_its_whole_name(wick) -> None:
    assert wick("show", "wick.relu").stdout == wick("show", "relu").stdout != ""
    done = wick("show", "wick.rellu")
    assert done.returncode == 1
    assert done.stderr.endswith('Wick ships no operator "wick.rellu"; did you mean "relu"?\n')
    done = wick("show", "acme.gate")
    assert done.returncode == 1
    assert done.stderr == 'wick show: no package has an operator "acme.gate"\n'
    # A file of that name is a file.
    (wick.folder / "wick.relu").write_text(RELU.replace("relu", "other"))
    assert "other_cpu" in wick("show", "wick.relu").stdout


def test_an_operator_of_an_installed_package(wick) -> None:
    (wick.folder / "gate.c").write_text(
        RELU.replace("relu", "gate").replace("WICK_OP", "WICK_NAMESPACE(acme);\nWICK_OP", 1)
    )
    packages = wick.folder / "lib/python3.12/site-packages"
    for folder in (packages / "wick", packages / "acme/operators", wick.folder / "bin"):
        folder.mkdir(parents=True)
    for name in ("gate", "relu"):
        made = packages / f"acme/operators/{name}.so"
        assert wick("build", "--native", f"{name}.c", "-o", str(made)).returncode == 0
    shutil.copy(packages / "acme/operators/relu.so", packages / "wick/wick_ops.so")
    shutil.copy(wick.command, wick.folder / "bin/wick")
    own = runner(wick.folder, str(wick.folder / "bin/wick"))
    assert own("show", "acme.gate", "--prototype").stdout.startswith("wick_status gate_cpu(")
    assert own("show", "acme.relu").returncode == 1
    done = own("show", "acme.gate", "--assembly")
    assert done.returncode == 1 and "gate is a module: name its source" in done.stderr


# ---- how it is made ----


def test_the_command_makes_a_module_of_the_glue(wick) -> None:
    glue, command = wick("show", "relu.c", "--glue"), wick("show", "relu.c", "--command")
    assert glue.returncode == command.returncode == 0
    (wick.folder / "unit.c").write_text(glue.stdout)
    subprocess.run(command.stdout, shell=True, cwd=wick.folder, check=True)
    assert wick("list", "module.so").stdout.startswith("local.relu ")


@pytest.mark.parametrize("name", ["relu", "twice.cu"])
def test_the_command_makes_a_module_of_the_host_half(wick, name: str) -> None:
    """Of a file with kernels, shipped or not: what is printed is C."""
    glue, command = wick("show", name, "--glue"), wick("show", name, "--command")
    if "not found beside Wick" in glue.stderr:
        pytest.skip("this command runs from a build folder without the package")
    (wick.folder / "unit.c").write_text(glue.stdout)
    assert "\n# unit.c is the host half: " in command.stdout
    subprocess.run(command.stdout, shell=True, cwd=wick.folder, check=True)
    assert wick("list", "module.so").stdout.split()[0].endswith(f".{name.split('.')[0]}")


def test_kernels_of_nvcc_are_an_object_of_its_own(wick) -> None:
    text = KERNEL.replace(
        "return WICK_LAUNCH(ctx, twice_kernel, wick_1d(wick_ceil_div(N, 256)),", ""
    )
    text = text.replace(" wick_1d(256), 0, x, y, N);", "twice_kernel<<<1, 256>>>(x, y, N);")
    (wick.folder / "launch.cu").write_text(text)
    said = wick("show", "launch.cu", "--command").stdout
    assert "# unit.c calls what nvcc makes of the kernels" in said, said
    if shutil.which("nvcc") is None:
        return
    built = wick("build", "launch.cu", "-o", "launch.so")
    assert built.returncode == 0, built.stderr
    done = wick("show", "launch.so", "--resources")
    assert done.returncode == 1 and "are inside nvcc's object, which cuobjdump reads" in done.stderr


def test_the_command_is_quoted(wick) -> None:
    folder = wick.folder / "a 'b'"
    folder.mkdir()
    shutil.copy(wick.folder / "relu.c", folder)
    said = wick("show", "a 'b'/relu.c", "--command", CFLAGS="-DX=1").stdout
    words = shlex.split(said)
    assert str(folder) in words[words.index("-iquote") + 1]
    assert words[-1] == "-DX=1" and "-O3" in words


def write_package(folder: Path, cmake: str) -> None:
    """The layout of `wick new --package`: an operator that needs a header of its package."""
    text = RELU.replace("x[i] < 0", "x[i] < LEAST").replace("relu", "gate")
    files = {
        "CMakeLists.txt": cmake,
        "include/acme/gates.h": "#define LEAST 0\n",
        "ops/gate.c": text.replace("op.h>", "op.h>\n#include <acme/gates.h>"),
        "ops/twice.cu": KERNEL.replace("op.h>", "op.h>\n#include <acme/gates.h>"),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def test_a_source_finds_the_headers_of_its_package(wick) -> None:
    write_package(wick.folder / "acme", "wick_add_operators(acme_ops ops/*.c INCLUDE include)")
    done = wick("show", "acme/ops/gate.c", "--assembly")
    assert done.returncode == 0 and "gate.c:" in done.stdout, done.stderr
    include = f"{wick.folder}/acme/ops/../include"
    cc, kernels, _ = wick("show", "acme/ops/twice.cu", "--command").stdout.splitlines()
    assert f" -I {include} " in cc and f" -I{include}" in kernels
    code = "op = wick.load('acme/ops/gate.c'); print(op.gate(torch.tensor([-1.0, 2.0])).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", f"import torch, wick; {code}"],
        cwd=wick.folder,
        env={**os.environ, "WICK_CACHE_DIR": str(wick.folder / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "[0.0, 2.0]\n", done.stderr
    assert ".so\nf64 " in wick("show", "acme/ops/gate.c", "--cache").stdout


def test_headers_of_other_folders_are_named_by_flags(wick) -> None:
    write_package(wick.folder / "other", "project(other)")
    done = wick("show", "other/ops/gate.c", "--assembly")
    assert done.returncode == 1 and "for every command CFLAGS=-I..." in done.stderr
    done = wick("show", "other/ops/gate.c", "--assembly", CFLAGS="-Iother/include")
    assert done.returncode == 0, done.stderr


def test_where_modules_lie(wick) -> None:
    def listed() -> dict[str, str]:
        lines = wick("show", "relu.c", "--cache").stdout.splitlines()
        return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}

    assert listed() == dict.fromkeys(
        ["f32", "f64"], "not built yet; built when loaded or first called"
    )
    code = "import torch, wick; op = wick.load('relu.c'); op.relu(torch.ones(2))"
    for further, built in (("", ["f32"]), ("; op.relu(torch.ones(2).double())", ["f32", "f64"])):
        subprocess.run(
            [sys.executable, "-c", code + further],
            cwd=wick.folder,
            env={**os.environ, "WICK_CACHE_DIR": str(wick.folder / "cache")},
            check=True,
            timeout=120,
        )
        found = listed()
        assert [types for types, path in found.items() if Path(path).exists()] == built
    whole = wick("show", "relu.c").stdout
    assert "\ncompiled by (unit.c is what --glue prints)\ncc " in whole
    assert f"\nbuilt by wick.load\nf32      {found['f32']}\n" in whole
    (wick.folder / "relu.c").write_text(RELU.replace("max(x, 0)", "max(x, 0), edited"))
    assert set(listed().values()) == {"not built yet; built when loaded or first called"}


def test_loops(wick) -> None:
    said = wick("show", "loops.c", "--assembly").stdout
    summary, *bodies = said.split("\n\n")
    assert said.startswith("loops.c\n"), "it has no type variable"
    add, mix = (
        re.search(rf"^({name}\w*), loops.c:(\S+): (\d+) instructions, (.*)$", summary, re.M)
        for name in ("add", "mix")
    )
    assert add and mix, said
    assert re.match(r"\d+ bytes wide", add[4]) and mix[4] == "one element at a time"
    assert add[2].startswith("1") and mix[2].startswith("1")
    head, *body = next(b for b in bodies if b.startswith("mix")).splitlines()
    assert head == mix[0]
    assert len([line for line in body if line.startswith("        ")]) == int(mix[3])
    assert not re.search(r"^\s+\.(loc|cfi)|\.LVL|\.LBB\d+:\n\s+\.LB", said, re.M)


def test_a_slow_loop_beside_a_fast_one_is_shown(wick) -> None:
    summary, *bodies = wick("show", "shares.c", "--assembly").stdout.split("\n\n")
    _, *lines = summary.splitlines()
    sums = [line for line in lines if re.search(r"shares.c:(\d+-)?10:", line)]
    wide = [line for line in lines if re.search(r"shares.c:(11-)?12: .* bytes wide$", line)]
    assert sums and wide, summary
    assert all(re.search("one element( at a time)?(, the rest of a wider one)?$", s) for s in sums)
    assert not all(line.endswith("the rest of a wider one") for line in sums)
    assert [body.splitlines()[0] for body in bodies] == lines


@pytest.mark.skipif(not shutil.which("clang-14"), reason="clang-14 is not installed")
def test_loops_of_clang(wick) -> None:
    said = wick("show", "loops.c", "--assembly", "--cc", "clang-14").stdout
    assert re.search(r"\nmix\w*, loops.c:\S+: \d+ instructions, one element at a time\n", said)


def test_no_loop_is_said(wick) -> None:
    text = RELU.replace(
        "for (int64_t i = 0; i < N; i++) y[i] = x[i] < 0 ? 0 : x[i];", "if (N) *y = *x;"
    )
    (wick.folder / "none.c").write_text(text)
    assert "no loop that touches memory" in wick("show", "none.c", "--assembly").stdout


def test_an_error_of_the_source_is_told_as_everywhere(wick) -> None:
    (wick.folder / "bad.c").write_text(RELU.replace("return WICK_OK", "return zz"))
    done = wick("show", "bad.c", "--assembly")
    assert done.returncode == 1 and done.stderr.startswith("wick show: bad.c:10:")
    done = wick("show", "relu.c", "--assembly", "--types", "i8")
    assert done.returncode == 1 and '"i8" is not one of the types of T' in done.stderr
    done = wick("show", "relu.c", "--types", "i8")
    assert (done.returncode, done.stdout) == (1, "")
    assert '"i8" is not one of the types of T' in done.stderr


def test_an_option_that_nothing_is_done_with_is_refused(wick) -> None:
    assert wick("build", "--native", "relu.c", "-o", "relu.so").returncode == 0
    for words, said in (
        (
            ("relu.so", "--types", "f32"),
            "--types is for what is made of a source, and relu.so is a",
        ),
        (("relu.c", "--arch", "sm_90"), "--arch is for --sass and --resources"),
    ):
        done = wick("show", *words)
        assert (done.returncode, done.stdout) == (2, "") and said in done.stderr


def test_a_module_has_no_source(wick) -> None:
    assert wick("build", "--native", "relu.c", "-o", "relu.so").returncode == 0
    for option in ("--glue", "--command", "--cache", "--assembly"):
        done = wick("show", "relu.so", option)
        assert done.returncode == 1 and "relu.so is a module: name its source" in done.stderr
    assert "compiled by" not in wick("show", "relu.so").stdout


def test_shipped_operators_have_their_sources(wick) -> None:
    if "not found beside Wick" in wick("show", "relu", "--glue").stderr:
        pytest.skip("this command runs from a build folder without the package")
    assert '/sources/elementwise/relu.c"\n' in wick("show", "relu", "--glue").stdout
    assert "bytes wide" in wick("show", "relu", "--assembly").stdout
    assert "-O3" in wick("show", "relu", "--command").stdout
    assert re.match(r"shipped  /\S+/wick_ops\.so\n", wick("show", "relu", "--cache").stdout)
    assert "compiled by" not in wick("show", "relu").stdout


# ---- kernels ----


def toolkit(folder: Path, *tools: str) -> dict[str, str]:
    """An environment with stand-ins of NVIDIA's programs, which say what they were given."""
    (folder / "toolkit/bin").mkdir(parents=True)
    for tool in tools:
        path = folder / "toolkit/bin" / tool
        path.write_text(f'#!/bin/sh\necho "{tool} $1 $(head -c 4 "$2" | tail -c 3)"\n')
        path.chmod(0o755)
    return {"CUDA_HOME": str(folder / "toolkit")}


def test_kernels_where_there_are_none(wick) -> None:
    done = wick("show", "relu.c", "--sass")
    assert done.returncode == 1 and "relu.c:1: there is no kernel in this file" in done.stderr
    assert wick("build", "--native", "relu.c", "-o", "relu.so").returncode == 0
    done = wick("show", "relu.so", "--resources")
    assert done.returncode == 1 and "the module has no device code: no operator" in done.stderr


def has_nvrtc() -> bool:
    if os.path.exists(os.environ.get("WICK_NVRTC", "")):
        return True
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return any(list(Path(folder).glob("*/lib/libnvrtc.so.*")) for folder in folders)


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_kernels(wick) -> None:
    there = toolkit(wick.folder, "cuobjdump", "nvdisasm")
    done = wick("show", "twice.cu", "--sass", "--resources", "--arch", "sm_90", **there)
    assert (done.returncode, done.stdout) == (
        0,
        "twice.cu f32, sm_90\ncuobjdump -res-usage ELF\ncuobjdump -sass ELF\n",
    ), done.stderr
    (wick.folder / "toolkit/bin/cuobjdump").unlink()
    done = wick("show", "twice.cu", "--sass", "--arch", "sm_90", PATH="/usr/bin:/bin", **there)
    assert (done.returncode, done.stdout) == (
        0,
        "twice.cu f32, sm_90\nnvdisasm -c ELF\n",
    ), done.stderr
    done = wick("show", "twice.cu", "--resources", "--arch", "sm_90", PATH="/usr/bin:/bin")
    assert done.returncode == 1
    assert "cuobjdump was found neither in $CUDA_HOME/bin nor on the PATH" in done.stderr


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_the_programs_of_triton_do_as_well(wick) -> None:
    """PyTorch's CUDA builds bring it along: beside the package, in site-packages."""
    packages = wick.folder / "lib/python3.12/site-packages"
    program = packages / "triton/backends/nvidia/bin/cuobjdump"
    for folder in (packages / "wick", program.parent, wick.folder / "bin"):
        folder.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "triton $1"\n')
    program.chmod(0o755)
    include = wick("config", "--include").stdout.strip()
    shutil.copy(wick.command, wick.folder / "bin/wick")
    own = runner(wick.folder, str(wick.folder / "bin/wick"))
    words = ("show", "twice.cu", "--resources", "--arch", "sm_90")
    done = own(*words, PATH="/usr/bin:/bin", WICK_INCLUDE=include)
    assert (done.returncode, done.stdout) == (
        0,
        "twice.cu f32, sm_90\ntriton -res-usage\n",
    ), done.stderr
    program.chmod(0o644)
    done = own(*words, PATH="/usr/bin:/bin", WICK_INCLUDE=include)
    assert done.returncode == 1 and "cuobjdump was found neither" in done.stderr


def test_flags_of_kernels(wick) -> None:
    said = wick("show", "twice.cu", "--command", WICK_CUDA_COMPILER="nvrtc").stdout.splitlines()
    assert len(said) == 3 and said[1].startswith("# kernels by NVRTC, for each GPU: -")
    assert len(wick("show", "relu.c", "--command").stdout.splitlines()) == 1


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_kernels_of_a_module(wick) -> None:
    there = toolkit(wick.folder, "cuobjdump")
    built = wick("build", "twice.cu", "-o", "twice.so", "--arch", "sm_80,sm_90")
    assert built.returncode == 0, built.stderr
    done = wick("show", "twice.so", "--resources", **there)
    heads = [line for line in done.stdout.splitlines() if line.startswith("twice.cu")]
    wanted = [f"twice.cu {t}, sm_{a}" for t in ("f32", "f64") for a in (80, 90)]
    assert (done.returncode, sorted(heads)) == (0, sorted(wanted)), done.stderr
    done = wick("show", "twice.so", "--sass", "--types", "f64", "--arch", "sm_90", **there)
    assert done.stdout == "twice.cu f64, sm_90\ncuobjdump -sass ELF\n"
    done = wick("show", "twice.so", "--sass", "--arch", "sm_100", **there)
    wanted = "the module has no device code of that kind: it is there for f32 f64, on sm_80 sm_90"
    assert done.returncode == 1 and wanted in done.stderr
