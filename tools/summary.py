"""Counts the tests of one `make test` and prints `N passed, N failed` as the last line.

Reads CTest's report (one case per executable), the report of each Criterion executable beside it
(one case per test) and pytest's. An executable that failed without saying which test, and a report
that is not there, are one failure each.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count_cases(report: Path) -> tuple[int, int]:
    """Passed and failed cases of a JUnit report; skipped ones are neither."""
    passed = failed = 0
    for case in ET.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is not None or case.get("status") == "SKIPPED":
            continue
        bad = case.find("failure") is not None or case.find("error") is not None
        if bad or case.get("status") in ("FAILED", "ERRORED", "fail"):
            failed += 1
        else:
            passed += 1
    return passed, failed


def count_ctest(report: Path, criterion: Path) -> tuple[int, int]:
    passed = failed = 0
    for case in ET.parse(report).getroot().iter("testcase"):
        own = criterion / (case.get("name", "").removeprefix("unit.") + ".xml")
        bad = case.get("status") == "fail" or case.find("failure") is not None
        if own.exists():
            inner_passed, inner_failed = count_cases(own)
            if bad and inner_failed == 0:
                inner_failed = 1
        else:
            inner_passed, inner_failed = (0, 1) if bad else (1, 0)
        passed += inner_passed
        failed += inner_failed
    return passed, failed


def main() -> int:
    build = Path(sys.argv[1])
    passed = failed = 0
    for report, count in (
        (build / "ctest.xml", lambda path: count_ctest(path, build / "unit")),
        (build / "pytest.xml", count_cases),
    ):
        try:
            one_passed, one_failed = count(report)
        except (OSError, ET.ParseError) as error:
            print(f"no report: {error}")
            one_passed, one_failed = 0, 1
        if one_passed + one_failed == 0:
            print(f"{report}: no tests ran")
            one_failed = 1
        passed += one_passed
        failed += one_failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
