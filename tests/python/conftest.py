"""Fixtures: operators made from C text (support.py says how it is spelled), and the doors they are called by."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cached import Room
from support import ADD, ADD_IN_PLACE, Made, fresh, write
from zygote import Zygote

import wick


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test builds lands in the user's cache, and nothing comes from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WICK_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("WICK_CACHE_SIZE", raising=False)
        yield


@pytest.fixture(autouse=True)
def same_numbers_in_every_run() -> None:
    """A test that fails once fails again: whatever is drawn is the same, in any order of tests."""
    random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Where processes come from that have loaded nothing yet (zygote.py)."""
    zygote = Zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def room(tmp_path: Path, zygote: Zygote) -> Room:
    """A cache, a compiler that counts its runs, and fresh processes that use both (cached.py)."""
    return Room(tmp_path, zygote)


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """make(text) writes a source, builds and loads it."""

    def make_one(text: str, namespace: str = "local", **options: Any) -> Made:
        name = fresh()
        path = write(tmp_path_factory.mktemp("source"), text, name)
        return Made(name, path, wick.load(path, **options), namespace)

    return make_one


@pytest.fixture(scope="module")
def add(make: Callable[..., Made]) -> Made:
    """y = x + by, for tests of a call."""
    return make(ADD)


@pytest.fixture(scope="module")
def bump(make: Callable[..., Made]) -> Made:
    """The same in place."""
    return make(ADD_IN_PLACE)


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., tuple[str, Path]]:
    """source(text) writes a source without loading it; the operator's name and the file."""

    def write_one(text: str, name: str | None = None) -> tuple[str, Path]:
        name = name or fresh()
        return name, write(tmp_path, text, name)

    return write_one


@pytest.fixture(params=["direct", "wick", "torch"])
def door(request: pytest.FixtureRequest) -> str:
    """The loaded object's attribute, wick.ops and torch.ops: what works by one works by all."""
    return request.param


@pytest.fixture(params=["direct", "torch"])
def either(request: pytest.FixtureRequest) -> str:
    """The two ways of the code: the direct call and the dispatcher's."""
    return request.param
