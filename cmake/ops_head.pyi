"""The operators that come with Wick, and other loaded namespaces (`wick.ops.acme.foo`)."""

from collections.abc import Callable
from typing import Any

class Namespace:
    """The operators of one WICK_NAMESPACE."""

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

local: Namespace

def __getattr__(name: str) -> Namespace: ...
