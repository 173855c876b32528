"""wick check: is an operator right?

    wick check my_op.c             against my_op.py beside it
    wick check relu                an operator that comes with Wick
    wick check                     all of those

It also runs by path, `python .../wick/cli_check.py`: this side imports neither torch nor the rest of
wick, so that the processes that run operators start at once. Options are listed in
src/cli/cmd_check.c too, which prints their help.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys

if __package__:
    from ._sources import SOURCES, sources_in
    from .check import report as reports
    from .check import show
    from .check.records import JUDGES, TYPES, Options, Target
    from .check.run import check
else:  # by path: this folder leads the search path, which is used once and then taken away
    from _sources import SOURCES, sources_in
    from check import report as reports
    from check import show
    from check.records import JUDGES, TYPES, Options, Target
    from check.run import check

    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

WRONG_USE = 2


def _list(what: str, known: tuple[str, ...]) -> object:
    def read(text: str) -> list[str]:
        words = text.replace(",", " ").split()
        for word in words or [text]:
            if word not in known:
                raise argparse.ArgumentTypeError(
                    f"{word or 'nothing'} is no {what}; there are {', '.join(known)}"
                )
        return words

    return read


def _not_below_zero(kind: type[int] | type[float]) -> object:
    def read(text: str) -> float:
        value = kind(text)
        if not 0 <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds, 0 or more")
        return value

    read.__name__ = kind.__name__  # argparse's word for what it expects
    return read


def _device(text: str) -> str:
    if not re.fullmatch(r"all|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text} is no device; there are all, cpu, cuda, cuda:N")
    return text


def _case(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a case, as a report prints it")
    return text


def _there(text: str) -> str:
    if not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"{text}: there is no such file")
    if os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text}: this is a folder, expected a file")
    if not text.endswith(".py"):
        raise argparse.ArgumentTypeError(f"{text}: expected Python, in a file that ends in .py")
    return text


def _file(text: str) -> str:
    """That can be written: better to know before the work than after it."""
    try:
        if text != "-":
            there = os.path.exists(text)
            open(text, "a").close()
            if not there:
                os.remove(text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error
    return text


def _named_file(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError("-: expected the name of a file")
    return _file(text)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="wick check",
        usage="wick check [OPTION...] [OPERATOR|FILE|MODULE|FOLDER...] (--help lists options)",
        allow_abbrev=False,
    )
    parser.add_argument("what", nargs="*", metavar="OPERATOR|FILE|MODULE|FOLDER")
    parser.add_argument("--reference", type=_there, metavar="FILE")
    parser.add_argument("--only", type=_list("judge", tuple(JUDGES)), action="extend")
    parser.add_argument("--types", type=_list("element type", TYPES), action="extend", default=[])
    parser.add_argument("--device", type=_device, default="all")
    parser.add_argument("--depth", choices=("quick", "default", "full"), default="default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=_not_below_zero(float), default=0.0, metavar="SECONDS")
    parser.add_argument("--limit", type=_not_below_zero(float), metavar="SECONDS")
    parser.add_argument("--case", type=_case, metavar="TEXT")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--jobs", type=_not_below_zero(int), default=0, metavar="N")
    parser.add_argument("--flags", default="", metavar="FLAGS")
    parser.add_argument("--json", type=_file, metavar="FILE")
    parser.add_argument("--junit", type=_named_file, metavar="FILE")
    if "--flags" in argv[:-1]:  # its value begins with a dash, which argparse takes for an option
        k = argv.index("--flags")
        argv = [*argv[:k], f"--flags={argv[k + 1]}", *argv[k + 2 :]]
    return parser.parse_args(argv)


def targets(words: list[str], flags: tuple[str, ...] = ()) -> list[Target]:
    """What the operands mean. Operators that come with Wick are one target together."""
    found, shipped = [], []
    for word in words:
        if os.path.isdir(word):
            found += [Target(path, label=path, flags=flags) for path in sources_in(word)]
        elif word.endswith((*SOURCES, ".so")) or "/" in word or os.path.exists(word):
            found.append(Target(word, label=word, flags=flags))
        else:
            shipped.append(re.sub(r"^wick(::|\.)", "", word))
    if shipped or not words:
        label = ", ".join(shipped) or "the operators that come with wick"
        found.append(Target(None, tuple(dict.fromkeys(shipped)), label=label))
    return list(dict.fromkeys(found))


def _stop(number: int, frame: object) -> None:
    """Ends with a report of what was found so far, and is not disturbed in that: `timeout` sends it twice."""
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    given = _parse(sys.argv[1:] if argv is None else argv)
    options = Options(
        only=given.only or list(JUDGES),
        seed=given.seed,
        seconds=given.time,
        limit=given.limit,
        depth=given.depth,
        types=given.types,
        device=given.device,
        reference=given.reference,
        case=given.case,
        jobs=given.jobs,
        first=given.first,
    )
    what = targets(given.what, tuple(given.flags.split()))
    missing = [t.path for t in what if t.path is not None and not os.path.exists(t.path)]
    if missing or not what:
        words = [f"{path}: there is no such file or folder" for path in missing]
        words = words or [f"no operator file is in {', '.join(given.what)}"]
        print(*(f"wick check: {line}" for line in words), sep="\n", file=sys.stderr)
        return WRONG_USE
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    with show.progress() as watch:
        report = check(what, options, watch)
    try:
        if given.json != "-":
            show.put(reports.lines(report))
        if given.json:
            reports.write_json(report, given.json)
        if given.junit:
            reports.write_junit(report, given.junit)
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads it any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    return 128 + signal.SIGINT if report.interrupted else report.code


if __name__ == "__main__":
    sys.exit(main())
