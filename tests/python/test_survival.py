"""What happens to people: many processes at once, killed builders, full and vanishing disks, broken edits, odd names."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import killing
import pytest
import torch
from cached import CALL, Room, looks_whole, one_type
from support import ADD, fresh, spell

import wick

# ---- many at once ----

REPORT = """
import hashlib
loaded = wick.load(args[0])
value = loaded.op(torch.zeros(1)).item()
code = b""
for line in open("/proc/self/maps"):
    where, mode, *_ = line.split()
    if "x" in mode and (args[1] in line or "operators.so" in line):
        begin, end = (int(n, 16) for n in where.split("-"))
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(begin)
            code += memory.read(end - begin)
assert code
print(value, hashlib.sha256(code).hexdigest())
"""


def test_32_processes_load_a_new_operator_at_once(room: Room) -> None:
    path = one_type(room.folder)
    gate = room.folder / "gate"
    wait = f"while not os.path.exists({str(gate)!r}): time.sleep(0.001)\n"
    children = [room.start(wait + REPORT, path, str(room.cache)) for _ in range(32)]
    gate.touch()
    done = [child.wait() for child in children]
    assert [d.code for d in done] == [0] * 32, next(d.err for d in done if d.code)
    assert room.compiler.runs == 1
    assert len({d.out for d in done}) == 1 and done[0].out.startswith("1.0 ")
    assert [len(room.entries(e)) for e in (".so", ".note")] == [1, 1]


def test_waiting_for_another_process_is_said_after_a_second(room: Room) -> None:
    path = one_type(room.folder)
    room.compiler.write("sleep 2")
    builder = room.start(CALL, path)
    while not room.compiler.runs:
        time.sleep(0.01)
    waiter = room.start(CALL, path)
    assert builder.wait().out == waiter.wait().out == "1.0\n"
    assert f"wick: waiting for process {builder.pid}, which is building op.c" in waiter.wait().err
    assert waiter.wait().err.count("waiting") == 1 and room.compiler.runs == 1
    assert "waiting" not in builder.wait().err


def test_builders_killed_at_random_points(room: Room) -> None:
    assert killing.trials(room, 30, seed=4) >= 5, "hardly a builder was at work when it was killed"


def test_the_lock_of_a_killed_builder_is_free(room: Room) -> None:
    path, slow = one_type(room.folder), room.folder / "slow"
    slow.touch()
    room.compiler.write(f"test -e '{slow}' && sleep 30")
    builder = room.start(CALL, path)
    while not room.compiler.runs:
        time.sleep(0.01)
    waiter = room.start(CALL, path)
    time.sleep(0.2)
    assert not waiter.ended()
    slow.unlink()
    builder.kill()
    began = time.monotonic()
    assert waiter.wait(20).out == "1.0\n"
    assert time.monotonic() - began < 10 and builder.wait().code == -signal.SIGKILL


def test_a_child_that_was_forked_during_a_build_holds_nothing_up(room: Room) -> None:
    path = one_type(room.folder)
    room.compiler.write("sleep 0.7")
    code = """
import threading
builder = threading.Thread(target=wick.load, args=args[:1])
builder.start()
while not os.path.exists(args[1]): time.sleep(0.01)
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
builder.join()
os.unlink([os.path.join(args[2], n) for n in os.listdir(args[2]) if n.endswith(".so")][0])
began = time.monotonic()
other = os.fork()
if other == 0:
    wick.load(source=open(args[0]).read(), name=args[0])
    os._exit(0)
os.waitpid(other, 0)
print(time.monotonic() - began)
os.kill(child, 9)
"""
    out = room.run(code, path, room.compiler.log, room.cache / "v1").out
    assert float(out) < 5


# ---- disks ----


@contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[None]:
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, str(at)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def test_a_full_disk_under_the_cache(room: Room) -> None:
    path = one_type(room.folder)
    with mounted("-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", at=room.cache):
        for _ in range(2):
            done = room.run(CALL, path)
            assert done.out == "1.0\n"
            assert "built, but not kept" in done.err and "No space left on device" in done.err
            assert all(looks_whole(p) for p in room.entries(".so") + room.entries(".note"))
            assert not [p for p in room.entries() if p.name.startswith(".")], "half a file was left"


def test_a_full_disk_under_the_temporary_folder(room: Room) -> None:
    path, full = one_type(room.folder), room.folder / "full"
    with mounted("-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", at=full):
        done = room.start(CALL, path, TMPDIR=str(full)).wait()
        assert done.code == 1 and f"BuildError: {path}:1: " in done.err
        assert "the disk is full" in done.err and "TMPDIR" in done.err
        assert list(full.iterdir()) == []
    assert room.call(path) == [1.0]


def test_a_disk_too_full_for_the_first_file(room: Room) -> None:
    path, full = one_type(room.folder), room.folder / "full"
    with mounted("-t", "tmpfs", "-o", "size=4k,nr_inodes=2,mode=700", "tmpfs", at=full):
        done = room.start(CALL, path, TMPDIR=str(full)).wait()
        assert done.code == 1 and f"BuildError: {path}:1: " in done.err
        assert "the disk is full" in done.err and "TMPDIR" in done.err


def test_a_temporary_folder_that_is_not_there(room: Room) -> None:
    path = one_type(room.folder)
    done = room.start(CALL, path, TMPDIR=str(room.folder / "gone")).wait()
    assert done.code == 1 and f"BuildError: {path}:1: " in done.err and "TMPDIR" in done.err


def test_a_cache_that_can_only_be_read(room: Room) -> None:
    known, new = one_type(room.folder, "known", 1), one_type(room.folder, "fresh", 2)
    assert room.call(known) == [1.0]
    with mounted("--bind", "-o", "ro", str(room.cache), at=room.cache):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(room.cache)], check=True)
        runs = room.compiler.runs
        done = room.run(CALL, known)
        assert (done.out, done.err) == ("1.0\n", "") and room.compiler.runs == runs
        done = room.run(CALL, new)
        assert (
            done.out == "2.0\n" and "not kept" in done.err and "Read-only file system" in done.err
        )
    assert room.call(new) == [2.0]


def test_a_cache_that_is_deleted_all_the_time(room: Room) -> None:
    paths = [one_type(room.folder, f"op{i}", i) for i in range(4)]
    children = [room.start(CALL, *paths) for _ in range(4)]
    until = time.monotonic() + 60
    while not all(child.ended() for child in children) and time.monotonic() < until:
        shutil.rmtree(room.cache, ignore_errors=True)
        time.sleep(0.001)
    for child in children:
        assert child.wait().code == 0, child.wait().err
        assert child.wait().out.split() == ["0.0", "1.0", "2.0", "3.0"]


def test_a_cache_that_is_swept_all_the_time(room: Room) -> None:
    """Entries go between being found and being opened."""
    path = one_type(room.folder)
    code = "wick.load(source=open(args[0]).read(), name='x').op(torch.zeros(1))"
    room.run(code, path)
    children = [
        room.start(
            f"for i in range(12):\n  if os.fork() == 0:\n    {code}\n    os._exit(0)\nfor i in range(12): assert os.wait()[1] == 0",
            path,
        )
        for _ in range(2)
    ]
    while not all(child.ended() for child in children):
        for entry in room.entries(".so"):
            entry.unlink(missing_ok=True)
    assert [child.wait().code for child in children] == [0, 0], children[0].wait().err


def test_a_cache_deleted_while_the_compiler_runs(room: Room) -> None:
    path = one_type(room.folder)
    room.compiler.write(f"rm -rf '{room.cache}'")
    assert room.call(path) == [1.0]
    room.compiler.write()
    assert room.call(path) == room.call(path) == [1.0]


def test_a_cache_deleted_after_a_load(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    code = """
import shutil
op = wick.load(args[0])
assert op.op(torch.zeros(1)).item() == 1.0
shutil.rmtree(args[1])
assert op.op(torch.zeros(1)).item() == 1.0
print(op.op(torch.zeros(1).half()).item(), torch.ops.local.op(torch.zeros(1).double()).item())
"""
    for _ in range(2):
        assert room.run(code, path, room.cache).out == "1.0 1.0\n"


# ---- forks and threads ----


def test_fork_after_load(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    code = """
op = wick.load(args[0]).op
pid = os.fork()
types = [torch.float32, torch.float16, torch.float64]
if pid == 0:
    types.reverse()
values = [op(torch.zeros(1, dtype=t)).item() for t in types]
values += [torch.ops.local.op(torch.zeros(1, dtype=t)).item() for t in types]
again = wick.load(args[0]).op(torch.zeros(1)).item()
ok = values == [1.0] * 6 and again == 1.0
if pid == 0:
    os._exit(0 if ok else 1)
print(ok, os.waitpid(pid, 0)[1])
"""
    assert room.run(code, path).out == "True 0\n"


def test_threads_that_load_the_same_file(room: Room) -> None:
    path = room.folder / "op.c"
    path.write_text(spell(ADD, "op"))
    code = """
import threading
start, results = threading.Barrier(8), []
def work():
    start.wait()
    op = wick.load(args[0])
    results.append([op.op(torch.zeros(1, dtype=t)).item() for t in (torch.float32, torch.float16)])
    results.append([torch.ops.local.op(torch.zeros(1)).item()] * 2)
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(results == [[1.0, 1.0]] * 16)
"""
    for _ in range(4):
        assert room.run(code, path).out == "True\n"
    assert room.compiler.runs == 5, "four types are read, one of them and f16 built"


def test_threads_that_load_different_files(room: Room) -> None:
    paths = [one_type(room.folder, f"op{i}", i) for i in range(6)]
    code = """
from concurrent.futures import ThreadPoolExecutor
def work(i):
    return getattr(wick.load(args[i]), f"op{i}")(torch.zeros(1)).item()
with ThreadPoolExecutor(6) as pool:
    print(*pool.map(work, range(6)))
"""
    for _ in range(2):
        assert room.run(code, *paths).out == "0.0 1.0 2.0 3.0 4.0 5.0\n"


# ---- names and flags ----

NAMES = [
    "with  blanks",
    "quotes ' \" `id`",
    "$(touch PWNED)",
    "; touch PWNED ;",
    "& | > PWNED",
    "-o PWNED",
    "-fplugin=x",
    "@file",
    "percent %s %n",
    "back\\slash",
    "hash # and $$ and \\$",
    "ünïcödé 火",
    "*?[a]{b}",
    "a:b",
    "n" * 240,
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_hostile_names(room: Room, name: str) -> None:
    folder = room.folder / f"d{name[:200]}"
    folder.mkdir()
    (folder / "value.h").write_text("#define VALUE 5\n")
    path = folder / f"{name}.c"
    text = one_type(room.folder, factor="VALUE", head='#include "value.h"\n').read_text()
    path.write_text(text)
    relative = "os.chdir(os.path.dirname(args[0])); print(wick.load(os.path.basename(args[0])).op(torch.zeros(1)).item())"
    assert room.call(path) == [5.0] and room.run(relative, path).out == "5.0\n"
    assert room.compiler.runs <= 2
    runs = room.compiler.runs
    assert room.call(path) == [5.0] and room.compiler.runs == runs, "found again"
    (folder / "value.h").write_text("#define VALUE 6\n")
    assert room.call(path) == [6.0]
    path.write_text(text.replace("return WICK_OK;", "return oops;"))
    done = room.start("wick.load(args[0])", path).wait()
    assert done.code == 1 and f"BuildError: {path}:9:" in done.err
    assert not [p for p in room.folder.rglob("*PWNED*") if "PWNED" not in name]


def test_names_that_cannot_be(room: Room) -> None:
    for name in ("new\nline.c", "t\tab.c", "bell\a.c"):
        path = room.folder / name
        path.write_text(one_type(room.folder).read_text())
        done = room.start("wick.load(args[0])", path).wait()
        assert done.code == 1 and "BuildError" in done.err and "control character" in done.err
    done = room.start("wick.load('nul\\0byte.c')").wait()
    assert done.code == 1 and "ValueError" in done.err


def test_hostile_flags(room: Room) -> None:
    path = one_type(room.folder, factor="(sizeof(TEXT) - 1)")
    code = "print(wick.load(args[0], flags=[args[1]]).op(torch.zeros(1)).item())"
    for text in [
        "a b",
        "$(touch PWNED)",
        "`touch PWNED`",
        "; touch PWNED",
        "'",
        "&& touch PWNED",
        "*",
        "火",
    ]:
        out = room.run(code, path, f'-DTEXT="{text}"').out
        assert float(out) == len(text.encode()), text
    assert not list(room.folder.rglob("PWNED")) and not Path("PWNED").exists()
    for flag in ("", "\n", "-", "--", "x\ny", "@", "-" * 5000):
        done = room.start(code, path, flag).wait()
        assert done.code == 1 and "BuildError" in done.err, f"{flag!r}: {done}"


def test_a_compiler_with_blanks_in_its_name_is_never_a_shell_command(room: Room) -> None:
    done = room.start("wick.load(args[0])", one_type(room.folder), CC="cc; touch PWNED").wait()
    assert done.code == 1 and not (room.folder / "PWNED").exists()


# ---- troubles that are not in the source ----


def failure(room: Room, path: Path, **environment: str | None) -> str:
    done = room.start("wick.load(args[0])", path, **environment).wait()
    assert done.code == 1 and f"BuildError: {path}:" in done.err, done
    return done.err


def test_no_compiler(room: Room) -> None:
    path = one_type(room.folder)
    said = failure(room, path, CC=None, PATH=str(room.folder / "empty"))
    assert "no C compiler" in said and "apt install gcc" in said and "CC" in said
    said = failure(room, path, CC="/nonexistent/cc")
    assert "/nonexistent/cc" in said and "$CC" in said


@pytest.mark.parametrize(
    "how",
    [
        "kill -9 $$",
        "echo 'cc: fatal error: Killed signal terminated program cc1'; exit 1",
        "echo 'cc1: out of memory allocating 65536 bytes'; exit 1",
        "echo 'virtual memory exhausted: Cannot allocate memory'; exit 1",
    ],
)
def test_a_compiler_without_memory(room: Room, how: str) -> None:
    room.compiler.write(how)
    said = failure(room, one_type(room.folder))
    assert "memory" in said.split("BuildError")[1] and "split the file" in said
    room.compiler.write()
    assert room.call(room.folder / "op.c") == [1.0]


def test_a_compiler_on_a_full_disk(room: Room) -> None:
    room.compiler.write(
        "echo 'fatal error: error writing to /tmp/x.s: No space left on device'; exit 1"
    )
    said = failure(room, one_type(room.folder))
    assert "the disk is full" in said and "TMPDIR" in said


def test_a_missing_header(room: Room) -> None:
    path = one_type(room.folder, head="#include <nowhere/at_all.h>\n")
    said = failure(room, path)
    assert f"{path}:1:" in said and "nowhere/at_all.h" in said and "a header is missing" in said
    assert "#include <nowhere/at_all.h>" in said, "the line is shown"


def test_the_whole_of_the_output_is_kept(room: Room) -> None:
    path = one_type(room.folder, factor="nonsense_one + nonsense_two")
    said = failure(room, path)
    log = Path(said.split("all of the compiler's output: ")[1].split("\n")[0])
    assert log.parent == room.cache / "v1"
    text = log.read_text()
    assert "nonsense_one" in text and "nonsense_two" in text and str(room.compiler) in text
    assert "nonsense_two" not in said.split("BuildError")[1].split("\n")[0]


# ---- edits that do not build ----


def test_a_header_that_breaks_and_is_mended(room: Room) -> None:
    header = room.folder / "value.h"
    header.write_text("#define VALUE 1\n")
    path = one_type(room.folder, factor="VALUE", head='#include "value.h"\n')
    code = """
x = torch.zeros(1)
op = wick.load(args[0]).op
compiled = torch.compile(lambda x: torch.ops.local.op(x) * 2, backend="eager")
print(op(x).item(), compiled(x).item())
for text in ("#define VALUE nonsense\\n", "#error no\\n"):
    open(args[1], "w").write(text)
    for call in (lambda: wick.load(args[0]), lambda: op(x), lambda: torch.ops.local.op(x), lambda: compiled(x)):
        try:
            call()
            print("ran")
        except RuntimeError as error:
            print("raised" if f"{args[0]}:" in str(error) else error)
open(args[1], "w").write("#define VALUE 3\\n")
op = wick.load(args[0]).op
print(op(x).item(), torch.ops.local.op(x).item(), compiled(x).item())
"""
    out = room.run(code, path, header).out.split()
    assert out == ["1.0", "2.0"] + ["raised"] * 8 + ["3.0", "3.0", "6.0"]


def test_a_broken_cell_leaves_other_cells_alone(room: Room) -> None:
    """Cells without a name are told apart by their operators."""
    good = one_type(room.folder, "good").read_text()
    other = one_type(room.folder, "other", 2).read_text()
    code = """
x = torch.zeros(1)
good = wick.load(source=args[0]).good
other = wick.load(source=args[1]).other
print(good(x).item(), other(x).item(), torch.ops.local.good(x).item())
try:
    wick.load(source=args[2])
except wick.BuildError as error:
    print("raised")
print(good(x).item(), other(x).item())
wick.load(source=args[0].replace("+ 1", "+ 7"))
print(good(x).item(), other(x).item())
"""
    third = one_type(room.folder, "third", "nonsense").read_text()
    out = room.run(code, good, other, third).out.splitlines()
    assert out == ["1.0 2.0 1.0", "raised", "1.0 2.0", "7.0 2.0"]


def test_files_without_operator_and_with_two_of_one_name(room: Room) -> None:
    empty = room.folder / "empty.c"
    for text in ("", "int x;\n", '#include <wick/op.h>\n/* WICK_OP(f, "x: f32[] -> ()"); */\n'):
        empty.write_text(text)
        said = failure(room, empty)
        assert "WICK_OP" in said
    twice = room.folder / "twice.c"
    text = one_type(room.folder).read_text()
    twice.write_text(text + text.split("\n", 1)[1])
    said = failure(room, twice)
    assert f"{twice}:10:" in said and "op" in said and "line 2" in said
    other = room.folder / "other.c"
    other.write_text(text)
    done = room.start("wick.load(args[0]); wick.load(args[1])", room.folder / "op.c", other).wait()
    assert (
        done.code == 1
        and f"BuildError: {other}:2:" in done.err
        and str(room.folder / "op.c") in done.err
    )


# ---- compiled graphs ----


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_graphs_run_the_new_code(tmp_path: Path, backend: str) -> None:
    torch._dynamo.reset()
    name = fresh()
    path = tmp_path / f"{name}.c"
    path.write_text(spell(ADD, name))
    wick.load(path)
    operator = getattr(torch.ops.local, name)
    compiled = torch.compile(lambda x: operator(x) * 2, backend=backend, fullgraph=True)
    x = torch.zeros(3)
    assert compiled(x).tolist() == [2.0] * 3
    path.write_text(spell(ADD.replace("(A)by", "(A)by * 5"), name))
    wick.load(path)
    assert compiled(x).tolist() == [10.0] * 3
    path.write_text(path.read_text().replace("return WICK_OK", "return NOT_OK"))
    with pytest.raises(wick.BuildError):
        wick.load(path)
    with pytest.raises(RuntimeError, match="NOT_OK"):
        compiled(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_graphs_of_another_signature_recompile_or_raise(
    tmp_path: Path, backend: str
) -> None:
    torch._dynamo.reset()
    name = fresh()
    path = tmp_path / f"{name}.c"
    path.write_text(spell(ADD, name))
    wick.load(path)
    compiled = torch.compile(lambda x: getattr(torch.ops.local, name)(x) * 2, backend=backend)
    x = torch.zeros(3)
    assert compiled(x).tolist() == [2.0] * 3
    changed = ADD.replace("by: float = 1.0", "by: float = 1.0, times: float = 3.0")
    changed = changed.replace("double by,", "double by, double times,").replace(
        "(A)by", "(A)(by * times)"
    )
    path.write_text(spell(changed, name))
    wick.load(path)
    try:
        got = compiled(x).tolist()
    except RuntimeError as error:
        assert name in str(error)
    else:
        assert got == [6.0] * 3, "the old code, or the new code with the old arguments"
    torch._dynamo.reset()
    assert compiled(x).tolist() == [6.0] * 3


# ---- progress ----


def test_slow_builds_say_so_in_plain_lines(room: Room) -> None:
    room.compiler.write("sleep 1.3")
    done = room.run(CALL, one_type(room.folder))
    lines = done.err.splitlines()
    assert lines[0] == "wick: building op.c ..."
    assert (
        lines[1].startswith("wick: built op.c in ") and lines[1].endswith(" s") and len(lines) == 2
    )
    assert room.run(CALL, room.folder / "op.c").err == ""


def test_slow_failures_say_so_too(room: Room) -> None:
    room.compiler.write("sleep 1.2")
    done = room.start(CALL, one_type(room.folder, factor="nonsense")).wait()
    assert "wick: building op.c ..." in done.err and "wick: could not build op.c in " in done.err


def test_quick_builds_say_nothing(room: Room) -> None:
    assert room.run(CALL, one_type(room.folder)).err == ""
