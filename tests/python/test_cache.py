"""The cache: what is found again, what counts as another build, what is not believed, and how it stays small."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cached import CC, Compiler, Room, looks_whole, one_type, private_mode, same_size_and_time
from support import ADD, command, spell

import wick

ALL_TYPES = """
op = wick.load(args[0])
f = getattr(op, op.names[0])
print(*(f(torch.zeros(1, dtype=getattr(torch, t))).item() for t in args[1:]))
"""


# ---- found again ----


def test_another_process_starts_no_compiler(room: Room) -> None:
    path = one_type(room.folder)
    assert room.call(path) == [1.0] and room.compiler.runs == 1
    assert room.call(path) == [1.0] and room.compiler.runs == 1
    assert [len(room.entries(e)) for e in (".so", ".note")] == [1, 1]
    assert all(looks_whole(p) for e in (".so", ".note") for p in room.entries(e))


def test_types_that_are_compiled_later_come_from_the_cache_too(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    assert room.run(ALL_TYPES, path, "float32").out.split() == ["1.0"]
    first = room.compiler.runs
    assert room.run(ALL_TYPES, path, "float32", "float16").out.split() == ["1.0"] * 2
    assert room.compiler.runs == first + 1
    assert room.run(ALL_TYPES, path, "float16", "float32").out.split() == ["1.0"] * 2
    assert room.compiler.runs == first + 1


def test_all_types_at_once(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    code = (
        "wick.load(args[0], types='all'); os.environ['CC'] = '/nonexistent'\n"
        + ALL_TYPES.replace("wick.load(args[0])", "wick.ops.local").replace("op.names[0]", "'op'")
    )
    for _ in range(2):
        out = room.run(code, path, "float16", "bfloat16", "float32", "float64").out
        assert out.split() == ["1.0"] * 4
    assert len(room.entries(".so")) == 4


def test_a_text_is_found_again(room: Room) -> None:
    code = "print(wick.load(source=args[0], name='cell').op(torch.zeros(1)).item())"
    text = one_type(room.folder).read_text()
    for _ in range(2):
        assert room.run(code, text).out == "1.0\n"
    assert room.compiler.runs == 1


def test_files_of_one_text_in_two_folders_have_entries_of_their_own(room: Room) -> None:
    folders = [room.folder / name for name in "ab"]
    for value, folder in enumerate(folders):
        folder.mkdir()
        (folder / "value.h").write_text(f"#define VALUE {value}\n")
        one_type(folder, factor="VALUE", head='#include "value.h"\n')
    for _ in range(2):
        assert [room.call(folder / "op.c") for folder in folders] == [[0.0], [1.0]]
    assert room.compiler.runs == 2


# ---- another build ----


def test_an_edit_that_neither_size_nor_clock_shows(room: Room) -> None:
    path = one_type(room.folder, factor=1)
    assert room.call(path) == [1.0]
    same_size_and_time(path, path.read_text().replace("+ 1", "+ 2"))
    assert room.call(path) == [2.0]
    same_size_and_time(path, path.read_text().replace("+ 2", "+ 1"))
    assert room.call(path) == [1.0] and room.compiler.runs == 2


def test_an_edit_in_the_same_process_that_neither_size_nor_clock_shows(room: Room) -> None:
    header = room.folder / "value.h"
    header.write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    code = """
for value in (1, 2, 1, 2):
    before = os.stat(args[1])
    with open(args[1], "w") as file: file.write(f"#define VALUE {value}\\n")
    os.utime(args[1], ns=(before.st_atime_ns, before.st_mtime_ns))
    print(wick.load(args[0]).op(torch.zeros(1)).item())
"""
    assert room.run(code, path, header).out.split() == ["1.0", "2.0", "1.0", "2.0"]


def test_an_edited_header_rebuilds_its_users_and_no_others(room: Room) -> None:
    include = room.folder / "include"
    include.mkdir()
    header = include / "value.h"
    header.write_text("#define VALUE 1\n")
    (include / "outer.h").write_text('#include "value.h"\n')
    head = '#include "include/outer.h"\n'
    users = [one_type(room.folder, name, "VALUE", head) for name in ("a", "b")]
    other = one_type(room.folder, "c", 7)
    assert room.call(*users, other) == [1.0, 1.0, 7.0] and room.compiler.runs == 3
    same_size_and_time(header, "#define VALUE 2\n")
    assert room.call(*users, other) == [2.0, 2.0, 7.0] and room.compiler.runs == 5
    assert room.call(*users, other) == [2.0, 2.0, 7.0] and room.compiler.runs == 5


def test_a_header_that_goes_away(room: Room) -> None:
    header = room.folder / "value.h"
    header.write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    assert room.call(path) == [1.0]
    header.unlink()
    done = room.start("wick.load(args[0])", path).wait()
    assert done.code == 1 and "value.h" in done.err and "a header is missing" in done.err


def test_a_header_that_comes_to_lie_in_front_of_another(room: Room) -> None:
    far = room.folder / "far"
    far.mkdir()
    (far / "value.h").write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    code = "print(wick.load(args[0], extra_include_paths=[args[1]]).op(torch.zeros(1)).item())"
    assert room.run(code, path, far).out == "1.0\n"
    (room.folder / "value.h").write_text("#define VALUE 2\n")
    assert room.run(code, path, far).out == "2.0\n"


def test_a_header_edited_while_the_compiler_runs(room: Room) -> None:
    """The module has the old text; it must not be found under the new."""
    header = room.folder / "value.h"
    header.write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    room.compiler.write(f"{CC} \"$@\"; code=$?; echo '#define VALUE 2' > '{header}'; exit $code")
    room.call(path)
    room.compiler.write()
    assert room.call(path) == [2.0]
    # The same compiler file again as in the first call would find its entry, if there were one.
    room.compiler.write(f"{CC} \"$@\"; code=$?; echo '#define VALUE 2' > '{header}'; exit $code")
    assert room.call(path) == [2.0]


@pytest.mark.parametrize(
    "change",
    [
        {"CFLAGS": "-DUNUSED=1"},
        {"CPATH": "/nonexistent"},
        {"C_INCLUDE_PATH": "/nonexistent"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_the_environment_tells_the_compiler(room: Room, change: dict[str, str]) -> None:
    path = one_type(room.folder)
    assert room.call(path) == [1.0] and room.compiler.runs == 1
    assert room.call(path, **change) == [1.0] and room.compiler.runs == 2
    assert room.call(path, **change) == room.call(path) == [1.0] and room.compiler.runs == 2


def test_flags_are_part_of_the_key(room: Room) -> None:
    path = one_type(room.folder, factor="VALUE")
    code = "print(wick.load(args[0], flags=[args[1]]).op(torch.zeros(1)).item())"
    for _ in range(2):
        assert [room.run(code, path, f"-DVALUE={v}").out for v in (3, 4)] == ["3.0\n", "4.0\n"]
    assert room.compiler.runs == 2


def test_flags_that_name_folders_from_where_we_are(room: Room) -> None:
    path = one_type(room.folder, factor="VALUE", head="#include <value.h>\n")
    code = "os.chdir(args[1]); print(wick.load(args[0], flags=['-I.']).op(torch.zeros(1)).item())"
    for value in (1, 2):
        (room.folder / str(value)).mkdir()
        (room.folder / str(value) / "value.h").write_text(f"#define VALUE {value}\n")
    for _ in range(2):
        assert [room.run(code, path, room.folder / str(v)).out for v in (1, 2)] == [
            "1.0\n",
            "2.0\n",
        ]


def test_an_object_file_that_a_flag_names(room: Room) -> None:
    path = one_type(room.folder, factor="helper()", head="float helper(void);\n")
    archive = room.folder / "helper.o"
    code = "print(wick.load(args[0], extra_ldflags=[args[1]]).op(torch.zeros(1)).item())"
    both = "helper = args[1]\n" + code + "\nos.rename(args[2], args[1])\n" + code
    for value in (1, 2, 3):
        c = room.folder / "helper.c"
        c.write_text(f"float helper(void) {{ return {value}; }}\n")
        target = archive if value < 3 else room.folder / "third.o"
        subprocess.run([CC, "-fPIC", "-c", c, "-o", target], check=True)
        if value < 3:
            assert room.run(code, path, archive).out == f"{value}.0\n"
    out = room.run(both, path, archive, room.folder / "third.o").out
    assert out == "2.0\n3.0\n", "in one process too"


def test_an_upgraded_compiler(room: Room) -> None:
    path = one_type(room.folder, factor="VALUE")
    room.compiler.write('set -- -DVALUE=1 "$@"')
    assert room.call(path) == [1.0]
    before = room.compiler.path.stat()
    room.compiler.write('set -- -DVALUE=2 "$@"')
    os.utime(room.compiler.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert room.compiler.path.stat().st_size == before.st_size
    assert room.call(path) == [2.0]
    assert room.compiler.runs == 2


def test_an_upgraded_compiler_behind_a_launcher(room: Room) -> None:
    """CC="ccache gcc": what is behind counts as well."""
    launcher = room.folder / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o700)
    path = one_type(room.folder, factor="VALUE")
    for value in (1, 2):
        room.compiler.write(f'set -- -DVALUE={value} "$@"')
        assert room.call(path, CC=f"{launcher} {room.compiler}") == [float(value)]


def test_two_compilers_of_one_name_on_the_path(room: Room) -> None:
    path = one_type(room.folder, factor="VALUE")
    folders = []
    for value in (1, 2):
        folder = room.folder / f"bin{value}"
        folder.mkdir()
        Compiler(folder, f'set -- -DVALUE={value} "$@"', "my-cc")
        folders.append(folder)
    for _ in range(2):
        for value, folder in enumerate(folders, 1):
            got = room.call(path, CC="my-cc", PATH=f"{folder}:{os.environ['PATH']}")
            assert got == [float(value)]


def test_headers_of_another_version_of_wick(room: Room) -> None:
    """Two installations that share a cache do not see each other's modules."""
    path = one_type(room.folder)
    code = """
from wick import _wick
number, functions, said = _wick.load_source(args[0], None, args[1], (), (), None, False, True)
print(functions[0](torch.zeros(1)).item())
"""
    ours = Path(wick.__file__).parent / "include"
    other = room.folder / "other" / "include"
    (other / "wick").mkdir(parents=True)
    for header in (ours / "wick").glob("*.h"):
        (other / "wick" / header.name).write_text(header.read_text() + "\n/* a later version */\n")
    for _ in range(2):
        assert room.run(code, path, ours).out == room.run(code, path, other).out == "1.0\n"
    assert room.compiler.runs == 2
    in_place = other / "wick" / "op.h"
    in_place.write_text(in_place.read_text() + "/* upgraded in place */\n")
    assert room.run(code, path, other).out == "1.0\n" and room.compiler.runs == 3


def test_layouts_of_other_versions_are_left_alone(room: Room) -> None:
    for layout in ("v0", "v2"):
        (room.cache / layout).mkdir(parents=True)
        (room.cache / layout / "theirs.so").write_bytes(b"x" * 100_000)
    room.cache.chmod(0o700)
    assert room.call(one_type(room.folder), WICK_CACHE_SIZE="1K") == [1.0]
    clear = [command(), "cache", "clear"]
    subprocess.run(
        clear,
        check=True,
        env={**os.environ, "WICK_CACHE_DIR": str(room.cache)},
        stdout=subprocess.DEVNULL,
    )
    assert room.entries() == []
    for layout in ("v0", "v2"):
        assert (room.cache / layout / "theirs.so").stat().st_size == 100_000


# ---- entries that are not what they were ----


def damages(data: bytes) -> list[bytes]:
    """Cut short in several places, and one bit changed in every region."""
    n = len(data)
    cut = [data[:k] for k in (0, 1, 8, n // 2, n - 33, n - 32, n - 31, n - 1)]
    places = [0, 16, n // 4, n // 2, n - 33, n - 32, n - 24, n - 16, n - 1]
    flipped = [data[:i] + bytes([data[i] ^ 0x10]) + data[i + 1 :] for i in places]
    return [*cut, *flipped, data + b"\0", b"\0" * n]


@pytest.mark.parametrize("ending", [".so", ".note"])
def test_a_damaged_entry_is_built_again(room: Room, ending: str) -> None:
    path = one_type(room.folder)
    room.call(path)
    (entry,) = room.entries(ending)
    whole = entry.read_bytes()
    children = []
    for number, data in enumerate(damages(whole)):
        cache = room.folder / f"cache{number}"
        (cache / "v1").mkdir(parents=True, mode=0o700)
        cache.chmod(0o700)
        for other in room.entries():
            (cache / "v1" / other.name).write_bytes(data if other == entry else other.read_bytes())
        children.append((cache, room.call(path, WICK_CACHE_DIR=str(cache))))
        assert looks_whole(cache / "v1" / entry.name), f"damage {number} was not mended"
    assert [value for _, value in children] == [[1.0]] * len(children)
    assert room.compiler.runs == 1 + len(children)


def test_verify_finds_and_removes_what_is_broken(room: Room) -> None:
    paths = [one_type(room.folder, name) for name in "abc"]
    room.call(*paths)
    entry = room.entries(".so")[1]
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    verify = [command(), "cache", "verify"]
    environment = {**os.environ, "WICK_CACHE_DIR": str(room.cache)}
    assert subprocess.run(verify, env=environment, capture_output=True).returncode == 1
    assert not entry.exists()
    assert subprocess.run(verify, env=environment, capture_output=True).returncode == 0
    assert room.call(*paths) == [1.0] * 3 and room.compiler.runs == 4


# ---- whose folder it is ----


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("which", ["", "v1"])
def test_a_folder_that_others_can_write_is_refused(room: Room, mode: int, which: str) -> None:
    (room.cache / "v1").mkdir(parents=True, mode=0o700)
    (room.cache / which).chmod(mode)
    done = room.start("wick.load(args[0])", one_type(room.folder)).wait()
    assert done.code == 1 and room.compiler.runs == 0
    assert f"BuildError: {room.folder / 'op.c'}:1: " in done.err
    assert "can be written by other users" in done.err and "chmod go-w" in done.err
    (room.cache / which).chmod(0o755)
    assert room.call(room.folder / "op.c") == [1.0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("which", ["", "v1"])
def test_a_folder_of_another_user_is_refused(room: Room, which: str) -> None:
    (room.cache / "v1").mkdir(parents=True, mode=0o700)
    os.chown(room.cache / which, 12345, 12345)
    done = room.start("wick.load(args[0])", one_type(room.folder)).wait()
    assert (
        done.code == 1
        and "belongs to another user (12345)" in done.err
        and "WICK_CACHE_DIR" in done.err
    )


def test_entries_that_others_can_write_are_not_made_and_not_believed(room: Room) -> None:
    (room.cache / "v1").mkdir(parents=True)
    for folder in (room.cache, room.cache / "v1"):
        folder.chmod(0o755)
    path = one_type(room.folder)
    code = "os.umask(0); print(wick.load(args[0]).op(torch.zeros(1)).item())"
    assert room.run(code, path).out == "1.0\n"
    assert all(private_mode(entry) for entry in room.entries())
    room.entries(".so")[0].chmod(0o666)
    assert room.run(code, path).out == "1.0\n"
    assert room.compiler.runs == 2 and all(private_mode(entry) for entry in room.entries(".so"))


def test_folders_on_the_way_are_made_and_private(room: Room) -> None:
    deep = room.folder / "a" / "b" / "c"
    assert room.call(one_type(room.folder), WICK_CACHE_DIR=str(deep)) == [1.0]
    assert [oct(p.stat().st_mode & 0o777) for p in (deep, deep / "v1")] == ["0o700"] * 2


def test_where_the_cache_is(room: Room) -> None:
    path = one_type(room.folder)
    room.call(path, WICK_CACHE_DIR=None, XDG_CACHE_HOME=str(room.folder / "xdg"))
    room.call(path, WICK_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(room.folder / "home"))
    room.call(path, WICK_CACHE_DIR="beside")
    for place in ("xdg/wick", "home/.cache/wick", "beside"):
        assert list((room.folder / place / "v1").glob("*.so")), place


def test_a_cache_named_from_where_we_are(room: Room) -> None:
    """A relative folder is found from where a load is, and works when the process has moved on."""
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    code = """
op = wick.load(args[0])
os.chdir("/")
print(op.op(torch.zeros(1).half()).item())
"""
    assert room.run(code, path, WICK_CACHE_DIR="beside").out == "1.0\n"
    assert not Path("/beside").exists()


def test_a_cache_that_cannot_be_is_done_without(room: Room) -> None:
    path = one_type(room.folder)
    (room.folder / "file").write_text("not a folder")
    done = room.run(
        "print(wick.load(args[0]).op(torch.zeros(1)).item())",
        path,
        WICK_CACHE_DIR=str(room.folder / "file" / "cache"),
    )
    assert done.out == "1.0\n"
    assert "cannot be used" in done.err and str(room.folder / "file" / "cache") in done.err
    done = room.start("wick.load(args[0])", path, WICK_CACHE_DIR=str(room.folder / "file")).wait()
    assert done.code in (0, 1) and str(room.folder / "file") in done.err


def test_a_build_directory_is_a_cache_of_its_own(room: Room) -> None:
    code = "print(wick.load(args[0], build_directory=args[1]).op(torch.zeros(1)).item())"
    path, own = one_type(room.folder), room.folder / "own"
    for _ in range(2):
        assert room.run(code, path, own).out == "1.0\n"
    assert room.compiler.runs == 1 and list((own / "v1").glob("*.so")) and not room.entries()


# ---- size ----


def test_what_was_used_least_recently_goes(room: Room) -> None:
    paths = [one_type(room.folder, f"op{i}", i) for i in range(6)]
    room.call(paths[0])
    each = sum(p.stat().st_size for p in room.entries())
    room.call(*paths[1:4])
    for age, name in enumerate(("op0", "op1", "op2", "op3")):
        for entry in room.entries():
            if f"/{name}.c".encode() in entry.read_bytes():
                os.utime(entry, (10_000 + age, 10_000 + age))
    room.call(paths[0])  # used: now the newest
    limit = str(int(each * 4.5))
    assert room.call(*paths[4:], WICK_CACHE_SIZE=limit) == [4.0, 5.0]
    assert sum(p.stat().st_size for p in room.entries()) <= int(limit)
    runs = room.compiler.runs
    assert room.call(paths[0], *paths[4:]) == [0.0, 4.0, 5.0] and room.compiler.runs == runs
    assert room.call(paths[1]) == [1.0] and room.compiler.runs == runs + 1


def test_a_cache_too_small_for_anything_still_works(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    for size in ("0", "1"):
        out = room.run(ALL_TYPES, path, "float32", "float16", WICK_CACHE_SIZE=size).out
        assert out.split() == ["1.0", "1.0"]
        assert sum(p.stat().st_size for p in room.entries()) <= 1


def test_forgotten_temporaries_go_and_young_ones_stay(room: Room) -> None:
    room.call(one_type(room.folder))
    old, young = (room.cache / "v1" / f".wick-{n}-0" for n in (1, 2))
    for temporary in (old, young):
        temporary.write_bytes(b"half of a module")
    os.utime(old, (10_000, 10_000))
    room.call(one_type(room.folder, "other"))
    assert not old.exists() and young.exists()


def test_a_clock_that_was_set_back(room: Room) -> None:
    """Everything in the cache, and the sources, are from the future."""
    header = room.folder / "value.h"
    header.write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    assert room.call(path) == [1.0]
    future = 4_000_000_000
    for file in (*room.entries(), path, header, room.cache / "v1"):
        os.utime(file, (future, future))
    assert room.call(path) == [1.0] and room.compiler.runs == 1
    header.write_text("#define VALUE 2\n")
    assert room.call(path) == [2.0] and room.call(path) == [2.0] and room.compiler.runs == 2
    assert room.call(one_type(room.folder, "other", 3), WICK_CACHE_SIZE="1K") == [3.0]
