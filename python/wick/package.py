"""For packages made with Wick (`wick new --package`): their operators as functions.

    # my_package/__init__.py
    from wick.package import load_operators
    __all__ = load_operators(globals())

Installed, a package has its modules in the folder `operators` beside __init__.py, one per operator
file. An editable install has a list of its sources there instead: they are built at import as far
as they, or headers that they include, changed. Either is written by wick_add_operators (CMake).
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, MutableMapping
from typing import Any

from ._load import Loaded, load

__all__ = ["load_operators"]

_FOLDER = "operators"
_LIST = "operators.json"


def load_operators(package: MutableMapping[str, Any]) -> list[str]:
    """Loads the operators of a package, puts them into it and returns their names, for __all__.

    package   globals() of the package's __init__.py

    Raises ImportError for a package that was not built, and wick.BuildError for an editable one
    that does not build.
    """
    folders = _folders(package)
    # Sources first: an editable install may lie over what an earlier one left.
    loaded = _load_sources(folders) or _load_modules(folders)
    if loaded is None:
        name = package["__name__"]
        raise ImportError(
            f"{name} has no operators in {' or '.join(folders)}: it was not built. "
            "Install it with `pip install .`, or `pip install -e .` to work on it",
            name=name,
        )
    package.update((name, getattr(loaded, name)) for name in loaded.names)
    return sorted(loaded.names)


def _folders(package: MutableMapping[str, Any]) -> list[str]:
    """Where its files are: of an editable one, the source tree and what was installed."""
    paths = list(package.get("__path__") or [os.path.dirname(os.path.abspath(package["__file__"]))])
    return [os.path.join(os.path.abspath(p), _FOLDER) for p in paths]


def _load_modules(folders: Iterable[str]) -> Loaded | None:
    patterns = [os.path.join(glob.escape(folder), "*.so") for folder in folders]
    modules = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    return load(sources=modules) if modules else None


def _load_sources(folders: Iterable[str]) -> Loaded | None:
    """The operators of an editable install; None where it is not one."""
    for folder in folders:
        path = os.path.join(folder, _LIST)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                about = json.load(file)
            loaded = load(
                sources=_sources(path, about["sources"]),
                flags=about["flags"],
                extra_cuda_cflags=about.get("cuda_flags"),
            )
            _check_namespace(loaded, about["namespace"])
            return loaded
    return None


def _check_namespace(loaded: Loaded, wanted: list[str]) -> None:
    for name in loaded.names:
        if wanted and getattr(loaded, name).__self__.namespace == "local":
            raise ImportError(
                f"{name} is in no namespace; in an editable install its file has to name it: "
                f"WICK_NAMESPACE({wanted[0]});"
            )


def _sources(path: str, patterns: Iterable[str]) -> list[str]:
    found: list[str] = []
    missing: list[str] = []
    for pattern in patterns:
        matches = sorted(glob.glob(pattern)) if "*" in pattern else [pattern]
        missing += [m for m in matches or [pattern] if not os.path.exists(m)]
        found += [m for m in matches if m not in found and os.path.exists(m)]
    if missing and (not found or any("*" not in m for m in missing)):
        raise ImportError(
            f"{missing[0]} is not there, but {path} names it: the source tree has moved "
            "or changed. Install it again: pip install -e ."
        )
    return found
