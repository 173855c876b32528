"""wick new: scaffolds an operator, or a package of operators, with Python's own library alone.

What is written are the files of templates/operator, templates/cuda (what is different where an
operator has a CUDA half) and templates/package, which are complete: in them the operator is called
my_op and the package my_package, and those names are replaced, in the text as in the names of files.
"""

from __future__ import annotations

import argparse
import glob
import importlib.util
import keyword
import os
import re
import sys
from importlib import metadata

_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")

_C_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while bool true false asm typeof main T A int8_t int16_t int32_t int64_t uint8_t NULL
"""
_MODULES = frozenset(["conftest", "numpy", "pytest", "torch", "wick", *sys.stdlib_module_names])
_NAMESPACES = "aten c10 c10d higher_order local prim prims profiler quantized wick_raw"

_EPILOG = """\
Examples:
  wick new softclip                   softclip.c, its reference, test and sizes, in this folder
  python -m pytest test_softclip.py   it passes as it is
  wick new --cuda softclip            softclip.cu, with kernels
  wick new --package acme             a package that pip installs, with tests and a CI file
  cd acme && wick new softclip        one more operator in it
"""


class RefusedError(Exception):
    """Why nothing was written. `code` is the exit status: 2 where the request itself is wrong."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


# ---- names ----


def check_name(name: str, package: bool = False) -> None:
    """Raises RefusedError for a name that would not compile, or would hide something."""

    def refuse(why: str) -> None:
        raise RefusedError(
            f'"{name}" cannot name {"a package" if package else "an operator"}: {why}', 2
        )

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        other = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
        hint = f"; how about {'op_' if other[0].isdigit() else ''}{other}?" if other else ""
        refuse(f"it takes letters, digits and _, and no digit first{hint}")
    if name in _C_WORDS.split():
        refuse("it means something in C already")
    if keyword.iskeyword(name):
        refuse("it means something in Python already")
    if name.startswith(("wick_", "WICK_")) or "__" in name:
        refuse("names with `wick_` in front, or with `__`, belong to Wick and to the compiler")
    if name in _MODULES:
        refuse(f"{name}.py would hide the Python module of that name")
    if package and name in _NAMESPACES.split():
        refuse(f"torch.ops.{name} belongs to torch or Wick")
    if not package and name.endswith("_backward"):
        of = name.removesuffix("_backward")
        refuse(f"by its name it is the gradient of {of}, which `wick new {of}` writes with it")


# ---- files ----


def _read_template(kind: str) -> dict[str, str]:
    """Path and text of every file of a template."""
    root = os.path.join(_TEMPLATES, kind)
    files = {}
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(d for d in inner if d != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                files[os.path.relpath(path, root)] = file.read()
    return files


def _rename(files: dict[str, str], *pairs: tuple[str, str]) -> dict[str, str]:
    """The files with names replaced, in paths and texts; `dot-x` becomes `.x`."""
    renamed = {}
    for path, text in files.items():
        for old, new in pairs:
            path, text = path.replace(old, new), text.replace(old, new)
        renamed[re.sub(r"(^|/)dot-", r"\1.", path)] = text
    return renamed


def _edit(files: dict[str, str], path: str, *pairs: tuple[str, str]) -> None:
    for old, new in pairs:
        if old not in files[path]:
            raise RefusedError(f"the template {path} has changed: it lacks {old!r}; reinstall Wick")
        files[path] = files[path].replace(old, new)


def _write(files: dict[str, str], folder: str, force: bool) -> list[str]:
    paths = {os.path.normpath(os.path.join(folder, name)): text for name, text in files.items()}
    existing = [p for p in paths if os.path.lexists(p)]
    if existing and not force:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise RefusedError(f"{existing[0]}{more} exists already; --force writes over it")
    for path, text in paths.items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return list(paths)


# ---- what is made ----


def _package_in(folder: str) -> str | None:
    """The name of the Wick package whose source tree this folder is."""
    if not os.path.exists(os.path.join(folder, "pyproject.toml")):
        return None
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "src", "*", "__init__.py"))):
        with open(path, encoding="utf-8") as file:
            if "load_operators" in file.read():
                return os.path.basename(os.path.dirname(path))
    return None


def operator_files(name: str, package: str | None, cuda: bool = False) -> dict[str, str]:
    """One operator; in a package its files lie in ops/ and tests/, and the test imports that."""
    files = _read_template("operator")
    source = "my_op.c"
    if cuda:
        files = {p: text for p, text in files.items() if p != source} | _read_template("cuda")
        source = "my_op.cu"
    if package:
        _edit(
            files,
            source,
            ("#include <wick/op.h>\n\n", f"#include <wick/op.h>\n\nWICK_NAMESPACE({package});\n"),
            ("(test_my_op.py)", "(tests/test_my_op.py)"),
        )
        _edit(
            files,
            "test_my_op.py",
            ("import wick\n", f"import {package} as op\n"),
            ("HERE = Path(__file__).parent\n", 'HERE = Path(__file__).parent.parent / "ops"\n'),
            (f'op = wick.load(HERE / "{source}")\n', ""),
            (" test_my_op.py", " tests/test_my_op.py"),
        )
        files = {
            ("tests/" if p.startswith("test_") else "ops/") + p: text for p, text in files.items()
        }
    return _rename(files, ("my_op", name))


def package_files(name: str) -> dict[str, str]:
    files = _read_template("package")
    try:
        version = ".".join(metadata.version("torch-wick").split(".")[:2])
    except metadata.PackageNotFoundError:
        version = "0.1"
    return _rename(
        files,
        ("my_package", name),
        ("my-package", name.replace("_", "-")),
        ("MY_PACKAGE", name.upper()),
        ("torch-wick>=0.1", f"torch-wick>={version}"),
    )


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="wick new",
        description="Scaffold an operator (source, reference, test, sizes to measure), or a "
        "package of operators. What is written works as it is: begin by running its test.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="the operator, or with --package the package")
    parser.add_argument(
        "--package", action="store_true", help="a package that pip installs, in a folder NAME"
    )
    parser.add_argument(
        "--dir", metavar="D", default=".", help="the folder to write into (else this one)"
    )
    parser.add_argument("--force", action="store_true", help="write over files that exist")
    parser.add_argument("--cuda", action="store_true", help="an operator with a CUDA half")
    return parser.parse_args(argv)


def _run(options: argparse.Namespace) -> None:
    if options.cuda and options.package:
        raise RefusedError(
            "--cuda is for an operator: make the package, and in its folder say wick new --cuda",
            2,
        )
    check_name(options.name, options.package)
    name, folder = options.name, options.dir
    if options.package:
        folder = os.path.join(folder, name)
        written = _write(package_files(name), folder, options.force)
        # The Wick at hand builds: it is on no index that pip could fetch it from.
        tools = ["scikit-build-core", "cmake", "ninja"]
        missing = not importlib.util.find_spec("scikit_build_core")
        steps = [f"cd {folder}", *[f"pip install {' '.join(tools)}"] * missing]
        steps += ["pip install --no-build-isolation -e .", "python -m pytest"]
    else:
        package = _package_in(folder)
        written = _write(operator_files(name, package, options.cuda), folder, options.force)
        test = next(p for p in written if os.path.basename(p) == f"test_{name}.py")
        source = next(p for p in written if p.endswith((".c", ".cu")))
        steps = [f"python -m pytest {test}", f"wick check {source}", f"wick bench {source}"]
    for path in written:
        print(path)
    print("Next:")
    for step in steps:
        print(f"  {step}")


def main(argv: list[str] | None = None) -> int:
    """`wick new`; argv without the program. Returns the exit status."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    try:
        _run(options)
    except RefusedError as refused:
        print(f"wick new: {refused}", file=sys.stderr)
        return refused.code
    except OSError as error:
        print(f"wick new: {error.filename or options.dir}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
