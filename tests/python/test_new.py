"""`wick new`: what it writes works as it is, and what it does not take it says why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import command

import wick
import wick.testing
from wick import cli_new
from wick.check.report import lines

NEW = Path(cli_new.__file__)
OPERATOR = ["{}.c", "{}.py", "{}.shapes.txt", "test_{}.py"]
INCLUDE = Path(wick.__file__).parent / "include"


def new(*arguments: str) -> int:
    return cli_new.main(list(arguments))


def test_runs_by_path_without_torch(tmp_path: Path) -> None:
    code = f"""
import runpy, sys
sys.modules["torch"] = None  # importing it fails
sys.argv = ["wick new", "softclip", "--dir", {str(tmp_path)!r}]
runpy.run_path({str(NEW)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f.format("softclip") for f in OPERATOR
    )
    assert str(tmp_path / "softclip.c") in done.stdout
    source = tmp_path / "softclip.c"
    assert done.stdout.endswith(
        f"Next:\n  python -m pytest {tmp_path / 'test_softclip.py'}\n"
        f"  wick check {source}\n  wick bench {source}\n"
    )


def own_test_says(folder: Path) -> str:
    """What pytest says of the test that was written along; it passes, without a warning."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_softclip.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "warning" not in done.stdout
    return done.stdout


def test_the_operator_passes_its_own_test(tmp_path: Path) -> None:
    assert new("softclip", "--dir", str(tmp_path)) == 0
    assert "skipped" not in own_test_says(tmp_path)


@pytest.mark.parametrize("option", [[], ["--cuda"]], ids=["c", "cuda"])
def test_the_operator_passes_wick_check(option: list[str], tmp_path: Path) -> None:
    assert new("softclip", "--dir", str(tmp_path), *option) == 0
    source = next(p for p in tmp_path.iterdir() if p.suffix in (".c", ".cu"))
    report = wick.testing.check(source, only=["forward", "gradient", "memory", "leak"])
    assert not [line for line, _ in lines(report) if line.startswith("  refused")]


def test_its_test_finds_a_fault(tmp_path: Path) -> None:
    """A wrong formula in the C file: the values are compared, not only the shapes."""
    assert new("softclip", "--dir", str(tmp_path)) == 0
    source = tmp_path / "softclip.c"
    source.write_text(
        source.read_text().replace("/ (1 + magnitude(x))", "/ (1.01f + magnitude(x))")
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "test_softclip.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_compilers_have_nothing_to_say(cc: str, tmp_path: Path) -> None:
    cc = shutil.which(cc) or shutil.which(f"{cc}-14") or ""
    if not cc:
        pytest.skip("it is not installed")
    assert new("softclip", "--dir", str(tmp_path)) == 0
    assert new("--package", "acme", "--dir", str(tmp_path)) == 0
    sources = [tmp_path / "softclip.c", *sorted((tmp_path / "acme" / "ops").glob("*.c"))]
    flags = ["-Wextra", "-Wshadow", "-Wconversion", "-Werror", f"-I{tmp_path / 'acme' / 'include'}"]
    done = subprocess.run(
        [command(), "build", "--cc", cc, "--include", str(INCLUDE), "-o", str(tmp_path / "all.so")]
        + [word for flag in flags for word in ("--flag", flag)]
        + [str(s) for s in sources],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_the_name_replaces_the_template_s_everywhere(tmp_path: Path) -> None:
    assert new("softclip", "--dir", str(tmp_path)) == 0
    assert new("--package", "acme_ops", "--dir", str(tmp_path)) == 0
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(written) > 14
    for path in written:
        both = str(path.relative_to(tmp_path)) + path.read_text()
        assert "my_op" not in both and "my_package" not in both.lower() and "my-package" not in both
    hidden = {p.name for p in (tmp_path / "acme_ops").iterdir() if p.name.startswith(".")}
    assert hidden == {".clangd", ".github", ".gitignore"}
    assert 'name = "acme-ops"' in (tmp_path / "acme_ops" / "pyproject.toml").read_text()


def test_a_package_is_built_by_the_wick_at_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip finds none elsewhere, as long as it is on no index."""
    for there in (True, False):
        monkeypatch.setattr(
            cli_new.importlib.util, "find_spec", lambda name, there=there: there or None
        )
        assert new("--package", "acme", "--dir", str(tmp_path), "--force") == 0
        steps = capsys.readouterr().out.split("Next:\n")[1].split("\n  ")
        assert "pip install --no-build-isolation -e ." in steps
        assert ("pip install scikit-build-core cmake ninja" in steps) != there
    page = (tmp_path / "acme" / "README.md").read_text()
    assert "not on PyPI yet" in page and "pip install torch torch-wick" not in page


def test_an_operator_in_a_package_goes_where_it_belongs(tmp_path: Path) -> None:
    assert new("--package", "acme", "--dir", str(tmp_path)) == 0
    package = tmp_path / "acme"
    assert new("softclip", "--dir", str(package)) == 0
    assert "\nWICK_NAMESPACE(acme);\n" in (package / "ops" / "softclip.c").read_text()
    test = (package / "tests" / "test_softclip.py").read_text()
    assert "import acme as op" in test and "wick" not in test
    assert not list(package.glob("*softclip*"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("3d", "no digit first; how about op_3d?"),
        ("soft-clip", "how about soft_clip?"),
        ("a b; rm", "how about a_b_rm?"),
        ("../x", "how about x?"),
        ("größe", "letters, digits"),
        ("", "letters, digits"),
        ("double", "in C already"),
        ("T", "in C already"),
        ("lambda", "in Python already"),
        ("wick_relu", "belong to Wick"),
        ("a__b", "belong to Wick"),
        ("random", "random.py would hide"),
        ("torch", "torch.py would hide"),
        ("relu_backward", "`wick new relu`"),
    ],
)
def test_names_that_are_refused(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(name, "--dir", str(tmp_path)) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f'wick new: "{name}" cannot name an operator: ') and why in said.err
    assert said.err.count("\n") == 1 and said.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["aten", "local", "c10d", "json", "wick", "soft-clip", "class"])
def test_packages_that_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new("--package", name, "--dir", str(tmp_path)) == 2
    assert f'"{name}" cannot name a package: ' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "softclip.py"
    kept.write_text("mine\n")
    assert new("softclip", "--dir", str(tmp_path)) == 1
    assert f"{kept} exists already; --force" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["softclip.py"] and kept.read_text() == "mine\n"
    assert new("softclip", "--dir", str(tmp_path), "--force") == 0
    assert "def softclip(" in kept.read_text()


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert new("softclip", "--dir", str(tmp_path / "file")) == 1
    said = capsys.readouterr().err
    assert said.startswith("wick new: ") and str(tmp_path / "file") in said


# ---- with a CUDA half ----

CUDA = ["{}.cu", "{}.md", "{}.py", "{}.shapes.txt", "test_{}.py"]


def test_the_operator_with_kernels_passes_its_own_test(tmp_path: Path) -> None:
    assert new("softclip", "--cuda", "--dir", str(tmp_path)) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f.format("softclip") for f in CUDA)
    assert "my_op" not in "".join(p.read_text() for p in tmp_path.iterdir())
    own_test_says(tmp_path)


def test_its_kernels_compile_for_every_gpu(tmp_path: Path) -> None:
    assert new("softclip", "--cuda", "--dir", str(tmp_path)) == 0
    output = tmp_path / "softclip.so"
    archs = ["--arch", "sm_75,sm_80,sm_90,sm_100"]
    done = subprocess.run(
        [command(), "build", "-q", "--include", INCLUDE, *archs, "-o", output, "softclip.cu"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "no NVRTC" in done.stderr:
        pytest.skip("neither NVRTC nor nvcc is here")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_operator_with_kernels_in_a_package(tmp_path: Path) -> None:
    assert new("--package", "acme", "--dir", str(tmp_path)) == 0
    assert new("softclip", "--cuda", "--dir", str(tmp_path / "acme")) == 0
    source = (tmp_path / "acme" / "ops" / "softclip.cu").read_text()
    assert "WICK_NAMESPACE(acme);" in source
    test = (tmp_path / "acme" / "tests" / "test_softclip.py").read_text()
    assert "import acme as op" in test and "wick.load" not in test
    assert "ops/*.cu" in (tmp_path / "acme" / "CMakeLists.txt").read_text()


def test_a_package_is_made_before_its_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new("acme", "--package", "--cuda", "--dir", str(tmp_path)) == 2
    assert "make the package, and in its folder say wick new --cuda" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        new("--help")
    said = capsys.readouterr().out
    assert done.value.code == 0 and "usage: wick new" in said and "wick new --package acme" in said


def test_without_a_name_it_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        new()
    assert done.value.code == 2 and "NAME" in capsys.readouterr().err


def test_the_sizes_name_the_signature_s_dims(tmp_path: Path) -> None:
    assert new("softclip", "--dir", str(tmp_path)) == 0
    lines = (tmp_path / "softclip.shapes.txt").read_text().splitlines()
    sizes = [line.split("#")[0].strip() for line in lines]
    assert len([s for s in sizes if s]) >= 3
    assert all(s.startswith("N=") and s[2:].replace("x", "").isdigit() for s in sizes if s)


def test_templates_are_installed_without_leftovers() -> None:
    root = NEW.parent / "templates"
    names = [n for _, _, files in os.walk(root) for n in files if not n.endswith(".pyc")]
    cuda = [n for n in os.listdir(root / "cuda") if not n.endswith(".pyc") and "." in n]
    assert len(names) == len(cuda) + len(cli_new.operator_files("x", None)) + len(
        cli_new.package_files("x")
    )
