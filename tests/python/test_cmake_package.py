"""Packages made with Wick: find_package(wick), the wheel, and what an edit builds again."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import run_python

import wick
from wick import cli_new, package

CMAKE = Path(wick.__file__).parent / "cmake"
SETTINGS = ("DEBUG", "USE_CUDA", "GPU_TARGETS", "CFLAGS")
OPERATORS = {"halve_", "leaky_bias", "leaky_gate"}

needs_cmake = pytest.mark.skipif(
    not shutil.which("cmake") or not shutil.which("ninja"),
    reason="cmake and ninja are not installed",
)
needs_backend = pytest.mark.skipif(
    importlib.util.find_spec("scikit_build_core") is None,
    reason="scikit-build-core is not installed",
)


def run(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    """Both streams of a program that has to succeed, run without the settings of the caller."""
    inherited = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    done = subprocess.run(
        [str(a) for a in arguments],
        cwd=cwd,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def pip(*arguments: object, **environment: str) -> str:
    return run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, **environment
    )


def scaffold(folder: Path) -> Path:
    """A package acme, as `wick new` writes it."""
    assert cli_new.main(["--package", "acme", "--dir", str(folder)]) == 0
    return folder / "acme"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# ---- CMake ----


class Tree:
    """A package's source tree, configured with plain CMake."""

    def __init__(self, source: Path) -> None:
        self.source, self.build = source, source / "build" / "plain"

    def configure(self, **environment: str) -> str:
        return run(
            "cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, f"-Dwick_DIR={CMAKE}",
            **environment,
        )  # fmt: skip

    def make(self, **environment: str) -> set[str]:
        """The operators that were built."""
        said = run("cmake", "--build", self.build, **environment)
        return set(re.findall(r"wick build (\w+)", said))

    def module(self, name: str) -> Path:
        return self.build / "acme_ops" / f"{name}.so"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree that is built, for tests that only look."""
    tree = Tree(scaffold(tmp_path_factory.mktemp("package")))
    tree.configure()
    assert tree.make() == OPERATORS
    return tree


@needs_cmake
def test_what_an_edit_builds_again(tmp_path: Path) -> None:
    tree = Tree(scaffold(tmp_path / "a folder"))
    ops, header = tree.source / "ops", tree.source / "include" / "acme" / "gates.h"
    tree.configure()
    assert tree.make() == OPERATORS
    assert tree.make() == set()
    edit(header, "slope * v", "v * slope")
    assert tree.make() == {"leaky_bias", "leaky_gate"}
    # A file that uses the header from now on follows it from now on.
    edit(ops / "halve_.c", "#include <wick", "#include <acme/gates.h>\n#include <wick")
    assert tree.make() == {"halve_"}
    edit(header, "v * slope", "slope * v")
    assert tree.make() == OPERATORS
    # Files come and go.
    text = (ops / "halve_.c").read_text()
    (ops / "third_.c").write_text(text.replace("halve_", "third_").replace("/ 2", "/ 3"))
    assert tree.make() == {"third_"}
    (ops / "third_.c").unlink()
    assert tree.make() == set()
    edit(ops / "halve_.c", "/ 2", "/ two")
    with pytest.raises(AssertionError, match=r"ops/halve_\.c:\d+:\d+: error: .*two"):
        tree.make()


@needs_cmake
def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    tree = Tree(scaffold(tmp_path))
    for name in ("halve_", "leaky_bias"):
        (tree.source / "ops" / f"{name}.c").unlink()

    def has_symbols() -> bool:
        return ".debug_info" in run("readelf", "-SW", tree.module("leaky_gate"))

    tree.configure(DEBUG="1", USE_CUDA="0", GPU_TARGETS="80;90")
    commands = (tree.build / "build.ninja").read_text()
    assert '"GPU_TARGETS=80;90"' in commands and " USE_CUDA=0 " in commands
    assert tree.make() == {"leaky_gate"} and has_symbols()
    tree.configure(DEBUG="0")
    assert tree.make() == {"leaky_gate"} and not has_symbols()


@needs_cmake
def test_an_editor_is_told_the_flags(built: Tree) -> None:
    commands = json.loads((built.build / "wick" / "compile_commands.json").read_text())
    assert {Path(c["file"]).stem for c in commands} == OPERATORS
    for one in commands:
        run(*one["arguments"][:-2], "-fsyntax-only", one["file"], cwd=Path(one["directory"]))


@needs_cmake
def test_install_puts_the_modules_into_the_package(built: Tree, tmp_path: Path) -> None:
    run("cmake", "--install", built.build, "--prefix", tmp_path)
    installed = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert installed == {f"acme/operators/{name}.so" for name in OPERATORS}


@needs_cmake
@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("t none.c", r"there is no file\s.*none\.c"),
        ("t nothing/*.c", r"no operator file was\s+given or found"),
        ("t", r"no operator file was\s+given or found"),
        ("t a/x.c b/x.c", r"two files are\s+named x"),
    ],
)
def test_wrong_calls_are_explained(call: str, why: str, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.c").write_text("")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(x LANGUAGES NONE)\n"
        f"find_package(wick REQUIRED)\nwick_add_operators({call})\n"
    )
    with pytest.raises(AssertionError, match=why):
        Tree(tmp_path).configure()


@needs_cmake
def test_namespace_flags_and_modules(tmp_path: Path) -> None:
    (tmp_path / "plain.c").write_text(
        "#include <wick/op.h>\n"
        'WICK_OP(plain, "x: f32[*N] -> y: f32[*N]");\n'
        "WICK_IMPL wick_status plain_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)\n"
        "{ (void)ctx; for (int64_t i = 0; i < N; i++) y[i] = x[i] * STEP; return WICK_OK; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(x LANGUAGES NONE)\n"
        "find_package(wick REQUIRED)\n"
        "wick_add_operators(some plain.c NAMESPACE acme_cmake FLAGS -DSTEP=3)\n"
        "get_target_property(modules some WICK_MODULES)\nmessage(STATUS modules=${modules})\n"
    )
    tree = Tree(tmp_path)
    module = tree.build / "some" / "plain.so"
    assert f"modules={module}" in tree.configure()
    assert tree.make() == {"plain"}
    code = """
import sys, torch, wick
wick.load(sys.argv[1])
print(torch.ops.acme_cmake.plain(torch.ones(2)).sum())
"""
    assert run_python(code, str(module)).strip() == "tensor(6.)"


# ---- pip ----


@needs_backend
def test_the_wheel_is_of_no_python_and_passes_the_package_s_tests(tmp_path: Path) -> None:
    source = scaffold(tmp_path)
    pip("wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert re.fullmatch(r"acme-0\.1\.0-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {n for n in names if "dist-info" not in n} == {
        "acme/__init__.py",
        *(f"acme/operators/{name}.so" for name in OPERATORS),
    }
    site = tmp_path / "site"
    pip("install", "-q", "--no-index", "--no-deps", "--target", site, wheel)
    for module in (site / "acme" / "operators").iterdir():
        linked = re.findall(r"NEEDED.*\[(\S+)\]", run("readelf", "-d", module))
        assert set(linked) <= {"libc.so.6", "libm.so.6"}
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    said = run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests",
        cwd=source, PYTHONPATH=os.pathsep.join(paths),
    )  # fmt: skip
    assert " passed" in said and "skipped" not in said


IMPORT = """
import sys, site, json
site.addsitedir(sys.argv[1])
import torch, wick, wick._calls
built = []
def tell(event, file, detail):
    if event == "started": built.append(file.rsplit("/", 1)[1])
wick._calls.tell = tell
import acme
x = torch.tensor([-4.0, 8.0])
y = acme.leaky_gate(x, torch.ones(2), 0.5)
print(json.dumps([sorted(set(built)), acme.__all__, y.tolist()]))
"""


@needs_backend
def test_an_editable_install_builds_what_changed_at_import(tmp_path: Path) -> None:
    source, cache = scaffold(tmp_path), str(tmp_path / "cache")
    pip(
        "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
        "--prefix", tmp_path / "prefix", "-e", source,
    )  # fmt: skip
    (site,) = (tmp_path / "prefix").glob("lib*/python3*/site-packages")

    def imported() -> tuple[list[str], list[str], list[float]]:
        return tuple(
            json.loads(run_python(IMPORT, str(site), WICK_CACHE_DIR=cache).splitlines()[-1])
        )

    assert imported() == (sorted(f"{n}.c" for n in OPERATORS), sorted(OPERATORS), [-2.0, 8.0])
    edit(source / "include" / "acme" / "gates.h", "slope * v", "2 * slope * v")
    halve = (source / "ops" / "halve_.c").read_text()
    (source / "ops" / "third_.c").write_text(halve.replace("halve_", "third_"))
    changed = ["leaky_bias.c", "leaky_gate.c", "third_.c"]
    assert imported() == (changed, sorted([*OPERATORS, "third_"]), [-4.0, 8.0])
    # What does not compile is an error at import, and the old code is not run in its place.
    edit(source / "ops" / "leaky_gate.c", "wick_A(j->gate[i])", "wick_A(j->gates[i])")
    with pytest.raises(AssertionError, match=r"BuildError: \S*ops/leaky_gate\.c:\d+:"):
        imported()


# ---- load_operators ----


def test_a_package_that_was_not_built_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"acme has no operators in .*pip install -e"):
        package.load_operators({"__name__": "acme", "__path__": [str(tmp_path)]})


def about(folder: Path, **fields: list[str]) -> dict[str, object]:
    (folder / "operators").mkdir()
    fields = {"sources": [], "flags": [], "namespace": [], **fields}
    (folder / "operators" / "operators.json").write_text(json.dumps(fields))
    return {"__name__": "acme", "__path__": [str(folder)]}


@pytest.mark.parametrize("pattern", ["ops/gone.c", "ops/*.c"])
def test_a_source_tree_that_moved_is_named(pattern: str, tmp_path: Path) -> None:
    missing = tmp_path / pattern
    with pytest.raises(ImportError, match=re.escape(str(missing)) + ".*pip install -e"):
        package.load_operators(about(tmp_path, sources=[str(missing)]))


def test_a_source_without_its_namespace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lonely.c").write_text(
        '#include <wick/op.h>\nWICK_OP(lonely_one, "x: f32[*N] -> y: f32[*N]");\n'
        "WICK_IMPL wick_status lonely_one_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)\n"
        "{ (void)ctx; for (int64_t i = 0; i < N; i++) y[i] = x[i]; return WICK_OK; }\n"
    )
    sources = [str(tmp_path / "lonely.c")]
    with pytest.raises(ImportError, match=r"lonely_one .*WICK_NAMESPACE\(acme\);"):
        package.load_operators(about(tmp_path, sources=sources, namespace=["acme"]))
