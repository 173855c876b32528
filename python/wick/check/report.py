"""What was found: for a terminal, as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import Any
from xml.etree import ElementTree

from .finding import UNANSWERED
from .records import JUDGES, Fault, Report, Subject, Tally

Line = tuple[str, str]  # words, style


def reproduce(report: Report, fault: Fault) -> str:
    """The line that shows the fault again."""
    words = ["wick", "check"]
    if fault.target.path is not None:
        words.append(fault.target.path)
    else:
        words.append(fault.case.op)
    words += ["--only", fault.judge, "--case", fault.case.text()]
    if report.options.reference:
        words += ["--reference", report.options.reference]
    if fault.target.flags:
        words += [f"--flags={' '.join(fault.target.flags)}"]
    if fault.target.device != "cpu":
        words += ["--device", fault.target.device]
    return " ".join(shlex.quote(w) for w in words)


# ---- for people ----


def _plural(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def _judges_of(report: Report, subject: Subject) -> list[str]:
    faults = {f.judge for f in report.faults if _of(f, subject)}
    return [j for j in JUDGES if j in faults or subject.tallies.get(j, Tally()).cases]


def _of(fault: Fault, subject: Subject) -> bool:
    return fault.subject == subject.name and fault.target == subject.target


def _judge_line(report: Report, subject: Subject, judge: str) -> Line:
    tally = subject.tallies.get(judge, Tally())
    faults = [f for f in report.faults if _of(f, subject) and f.judge == judge]
    words = f"  {judge:<9} {'FAULT' if faults else 'ok':<6} {_plural(tally.cases, 'case')}"
    if judge == "forward" and subject.reference is None and report.stands_alone(subject):
        words += ", against its own widest type"
    if tally.worst > 0 and not faults:
        words += f", largest error {tally.worst:.2g} of what is allowed"
    return words, "red" if faults else ""


def _fault_lines(report: Report, fault: Fault) -> list[Line]:
    where = f" ({', '.join(fault.types)})" if fault.types else ""
    lines = [
        (f"FAULT {fault.judge}: {fault.subject}{where}", "bold red"),
        (f"   {fault.title}", ""),
    ]
    lines += [(f"   {detail}", "") for detail in fault.details]
    if fault.count > 1:
        lines.append(
            (f"   {_plural(fault.count, 'case')} of this kind; the smallest found:", "dim")
        )
    lines.append((f"   {reproduce(report, fault)}", "cyan"))
    return [*lines, ("", "")]


def _aside_lines(subject: Subject) -> list[Line]:
    """What was left out and what else is worth knowing."""
    counts: Counter[str] = Counter()
    for tally in subject.tallies.values():
        counts.update({w: n for w, n in tally.skipped.items() if not w.startswith("unfit")})
    refused = sum((Counter(t.refused) for t in subject.tallies.values()), Counter[str]())
    lines = [
        (f"  skipped   {_plural(n, 'case')}: {words}", "yellow")
        for words, n in counts.items()
        if not words.startswith(UNANSWERED)
    ]
    for words, n in [c for c in counts.most_common() if c[0].startswith(UNANSWERED)][:3]:
        first = words.removeprefix(UNANSWERED).split("\n")[0]
        lines.append((f"  no answer {_plural(n, 'case')}: {first}", "dim"))
    if _is_mostly_unanswered(subject):
        words = f"most cases have no answer: {subject.forward}_inputs beside the reference may make others"
        lines.append((f"  note      {words}", "yellow"))
    for words, n in refused.most_common(3):
        lines.append((f"  refused   {_plural(n, 'case')}: {words}", "dim"))
    lines += [
        (f"  note      {words} ({_plural(n, 'case')})", "dim") for words, n in subject.notes.items()
    ]
    return lines


def _is_mostly_unanswered(subject: Subject) -> bool:
    """Of those that compare values."""
    unanswered = sum(
        n
        for words, n in subject.tallies.get("skipped-values", Tally()).skipped.items()
        if words.startswith(UNANSWERED)
    )
    tag = "forward" if subject.name == subject.forward else "gradient"
    return unanswered > subject.tallies.get(tag, Tally()).cases


def _head(subject: Subject) -> list[Line]:
    source = f"reference {subject.reference}"
    if subject.reference is None:
        source = f"no reference: {subject.problem}" if subject.problem else "no reference"
    where = "" if subject.target.device == "cpu" else f" on {subject.target.device}"
    return [(f"{subject.name}{where}: {subject.signature}", "bold"), (f"  {source}", "dim")]


def fault_lines(report: Report, faults: list[Fault]) -> list[Line]:
    """These faults alone, and how many."""
    found = [line for fault in faults for line in _fault_lines(report, fault)]
    return [*found, (_plural(len(faults), "fault"), "bold red")]


def lines(report: Report) -> list[Line]:
    found: list[Line] = []
    for subject in report.subjects:
        about = [_judge_line(report, subject, judge) for judge in _judges_of(report, subject)]
        about += _aside_lines(subject)
        if about or subject.problem:
            found += [*_head(subject), *about, ("", "")]
    for fault in report.faults:
        found += _fault_lines(report, fault)
    for words in report.unjudged():
        found.append((f"COULD NOT CHECK {words}", "magenta"))
    found.append(_last_line(report))
    return found


def _last_line(report: Report) -> Line:
    n = len(report.faults)
    verdict = (
        f"{_plural(n, 'fault')}"
        if n
        else ("sound" if report.code == 0 else "not all could be checked")
    )
    operators = _plural(len(report.subjects), "operator")
    words = f"{verdict}: {operators}, {_plural(report.cases, 'case')}, {report.seconds:.1f} s"
    return words, "bold red" if n else "bold green" if report.code == 0 else "bold magenta"


# ---- for programs ----


def as_json(report: Report) -> dict[str, Any]:
    return {
        "code": report.code,
        "seed": report.options.seed,
        "seconds": round(report.seconds, 3),
        "cases": report.cases,
        "operators": [_subject_json(report, s) for s in report.subjects],
        "faults": [_fault_json(report, f) for f in report.faults],
        "unchecked": report.unjudged(),
    }


def _subject_json(report: Report, subject: Subject) -> dict[str, Any]:
    judges = {}
    for judge in _judges_of(report, subject):
        tally = subject.tallies.get(judge, Tally())
        faults = sum(_of(f, subject) and f.judge == judge for f in report.faults)
        judges[judge] = {
            "cases": tally.cases,
            "faults": faults,
            "worst": None if faults else tally.worst,
        }
    skipped: dict[str, int] = {}
    for tally in subject.tallies.values():
        for words, n in tally.skipped.items():
            skipped[words] = skipped.get(words, 0) + n
    return {
        "name": subject.name,
        "device": subject.target.device,
        "file": subject.file,
        "signature": subject.signature,
        "reference": subject.reference,
        "judges": judges,
        "skipped": skipped,
        "notes": list(subject.notes),
    }


def _fault_json(report: Report, fault: Fault) -> dict[str, Any]:
    return {
        "operator": fault.subject,
        "device": fault.target.device,
        "file": fault.target.path,
        "judge": fault.judge,
        "kind": fault.kind,
        "title": fault.title,
        "details": fault.details,
        "types": fault.types,
        "count": fault.count,
        "case": fault.case.text(),
        "reproduce": reproduce(report, fault),
    }


def write_json(report: Report, path: str) -> None:
    text = json.dumps(as_json(report), indent=2) + "\n"
    if path == "-":
        print(text, end="")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _plain(words: str) -> str:
    """Without what no XML may have, such as colours and other control characters of a message."""
    return "".join(c if c in "\t\n\r" or " " <= c <= "\ufffd" else "?" for c in words)


def write_junit(report: Report, path: str) -> None:
    """A test suite per operator and device, a test case per judge."""
    root = ElementTree.Element("testsuites", name="wick check", time=f"{report.seconds:.3f}")
    for subject in report.subjects:
        judges, device = _judges_of(report, subject), subject.target.device
        name = subject.name if device == "cpu" else f"{subject.name} on {device}"
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(judges)))
        failures = 0
        for judge in judges:
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=judge)
            for fault in report.faults:
                if _of(fault, subject) and fault.judge == judge:
                    failures += 1
                    words = _plain("\n".join(w for w, _ in _fault_lines(report, fault)))
                    title = _plain(fault.title)
                    ElementTree.SubElement(case, "failure", message=title).text = words
        suite.set("failures", str(failures))
    for words in map(_plain, report.unjudged()):
        suite = ElementTree.SubElement(
            root, "testsuite", name="could not check", tests="1", errors="1"
        )
        case = ElementTree.SubElement(suite, "testcase", classname="wick check", name=words[:80])
        ElementTree.SubElement(case, "error", message=words)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
