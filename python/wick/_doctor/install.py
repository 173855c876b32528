"""install -- the wick command and the package as one installation, and the cache they share"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import struct

from .build import judge_disk
from .findings import Finding, ok, problem, warning
from .machine import Machine, run

DEFAULT_LIMIT = 1 << 30
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
OLD_TEMPORARY = 3600


# ---- the command ----


def _version_of(m: Machine, command: str) -> str | None:
    """The version of a wick command; None when it is some other program of that name."""
    code, out, _ = run([command, "--version"], m.env, timeout=20)
    match = re.fullmatch(r"wick (\S+)\s*", out)
    return match[1] if code == 0 and match else None


def check_command(m: Machine) -> list[Finding]:
    reinstall = f"{m.pip} install --force-reinstall --no-deps torch-wick"
    if not m.command:
        text = f"the wick command is neither beside {m.python} nor on the PATH"
        return [warning("command-missing", text, reinstall)]
    found: list[Finding] = []
    version = _version_of(m, m.command)
    package = m.wick.get("version") or m.core.get("version")
    if version is None:
        text = f"{m.command} is another program, or does not run"
        found.append(problem("command-foreign", text, reinstall))
    elif package and version != package:
        text = f"{m.command} is wick {version}, the Python package is wick {package}"
        found.append(problem("command-version", text, reinstall, m.package))
    return found + _on_path(m) or [ok("command", f"the command is wick {version}", m.command)]


def _on_path(m: Machine) -> list[Finding]:
    beside = os.path.dirname(m.python)
    first = f"export PATH={shlex.quote(beside)}:$PATH"
    if os.path.exists(os.path.join(beside, "activate")):
        first = f". {shlex.quote(os.path.join(beside, 'activate'))}"
    others = [c for c in m.commands if c != m.command]
    if not others:
        return []
    if m.commands[0] != m.command:
        text = f"`wick` in a shell is {others[0]}, which is not of the environment of {m.python}"
        return [warning("command-other", text, first)]
    text = f"two wick installations are on the PATH: {m.command}, which is used, and {others[0]}"
    return [
        warning("command-twice", text, f"rm {shlex.quote(others[0])}    # or uninstall it there")
    ]


# ---- the cache ----


def check_cache(m: Machine) -> list[Finding]:
    elsewhere = 'export WICK_CACHE_DIR="$HOME/wick-cache"'
    if not m.cache:
        text = "there is no home folder for a cache: every load builds"
        return [warning("cache-nowhere", text, "export WICK_CACHE_DIR=/a/folder/of/yours")]
    quoted = shlex.quote(m.cache)
    parent = m.cache
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent) or "/"
    if parent != m.cache:
        if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
            return [ok("cache", f"the cache {m.cache} is made by the first build")]
        text = f"the cache {m.cache} cannot be made ({parent} is read-only): every load builds"
        return [warning("cache-read-only", text, _usable_cache(m))]
    if not os.path.isdir(m.cache):
        return [problem("cache-not-a-folder", f"the cache {m.cache} is a file", f"rm {quoted}")]
    for folder in (m.cache, os.path.join(m.cache, "v1")):
        finding = _judge_owner(m, folder, elsewhere) if os.path.isdir(folder) else None
        if finding:
            return [finding]
    found = judge_disk("cache", f"the cache {m.cache}", m.cache, elsewhere)
    return found + _judge_limit(m)


def _usable_cache(m: Machine) -> str:
    return f"export WICK_CACHE_DIR={shlex.quote(os.path.join(m.tmp, 'wick-cache'))}"


def _judge_owner(m: Machine, folder: str, elsewhere: str) -> Finding | None:
    """What lies in the cache is run, so it has to be the user's alone."""
    about = os.stat(folder)
    if about.st_uid != os.geteuid():
        text = f"the cache {folder} belongs to another user ({about.st_uid}): Wick refuses it"
        return problem("cache-owner", text, elsewhere)
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"the cache {folder} can be written by other users: Wick refuses it"
        return problem("cache-permissions", text, f"chmod go-w {shlex.quote(folder)}")
    if not os.access(folder, os.R_OK | os.X_OK) or not about.st_mode & stat.S_IRUSR:
        text = f"the cache {folder} cannot be read: every load builds"
        return warning("cache-unreadable", text, f"chmod u+rwx {shlex.quote(folder)}")
    if not os.access(folder, os.W_OK) or not about.st_mode & stat.S_IWUSR:
        text = f"the cache {folder} cannot be written: what is not in it is built by every load"
        return warning("cache-read-only", text, f"chmod u+w {shlex.quote(folder)}")
    return None


def _limit(m: Machine) -> int | None:
    text = m.env.get("WICK_CACHE_SIZE", "")
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    return int(match[1]) << UNITS[match[2]] if match else None if text else DEFAULT_LIMIT


def _judge_limit(m: Machine) -> list[Finding]:
    limit = _limit(m)
    if limit is None:
        text = f'WICK_CACHE_SIZE is "{m.env["WICK_CACHE_SIZE"]}", expected something like 500M'
        return [warning("cache-limit", text, "export WICK_CACHE_SIZE=1G")]
    if limit < 1 << 20:
        text = f"WICK_CACHE_SIZE is {limit} bytes: hardly an operator stays in the cache"
        return [warning("cache-limit", text, "export WICK_CACHE_SIZE=1G")]
    return []


def check_entries(m: Machine) -> list[Finding]:
    folder = os.path.join(m.cache, "v1") if m.cache else ""
    if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
        return []
    size, count = _size(m, folder)
    limit = _limit(m) or DEFAULT_LIMIT
    text = f"{count} module{'s' * (count != 1)}, {size / (1 << 20):.1f} MiB of at most {limit >> 20} MiB"
    checked, broken = _verify(m, folder)
    if broken:
        text = f"{broken} of {checked} entries of the cache are damaged; they are built again"
        return [warning("cache-damaged", text, "wick cache verify    # removes them")]
    if size > 2 * limit:
        return [warning("cache-large", f"the cache holds {text}", "wick cache clear")]
    return [ok("entries", f"the cache holds {text}; none is damaged")]


def _size(m: Machine, folder: str) -> tuple[int, int]:
    """Bytes and modules, as `wick cache size --json` says, or else as the folder shows."""
    if m.command:
        code, out, _ = run([m.command, "cache", "size", "--json"], m.env, timeout=60)
        try:
            said = json.loads(out) if code == 0 else {}
            return int(said["bytes"]), int(said["modules"])
        except (ValueError, KeyError, TypeError):
            pass
    files = [entry for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    entries = sum(entry.name.endswith(".so") for entry in files)
    return sum(entry.stat().st_size for entry in files), entries


SEAL = struct.Struct("=8sQ16s")
"""The end of an entry (src/build/cache.c): a mark, the bytes in front of it, their hash."""


def _verify(m: Machine, folder: str) -> tuple[int, int]:
    """Entries that were looked at, and those cut short or without their seal.

    `wick cache verify` removes what is damaged, and the doctor changes nothing: it reads the ends
    itself. Bytes altered in the middle are found by whoever loads the entry.
    """
    checked = broken = 0
    for entry in os.scandir(folder):
        if not entry.name.endswith((".so", ".note")) or not entry.is_file(follow_symlinks=False):
            continue
        checked += 1
        try:
            broken += not _is_sealed(entry.path)
        except FileNotFoundError:
            checked -= 1  # replaced while we looked
    return checked, broken


def _is_sealed(path: str) -> bool:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < SEAL.size:
            return False
        file.seek(size - SEAL.size)
        magic, length, _ = SEAL.unpack(file.read(SEAL.size))
    return magic == b"WICKSEAL" and length == size - SEAL.size
