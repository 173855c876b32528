"""A call that may end its process, and be right to: an operator need not look at places."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from .. import _wick
from .call import Call
from .guarded import Manner

PATIENCE_S = 5


def answers(call: Call) -> bool:
    """Whether the operator has an answer, with guards right in front of its tensors: it is asked in a
    process of its own."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            _wick.report_crashes(nowhere)  # nobody need be told of its end
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE_S)
            outcome = replace(call, phase=lambda _: None).run(Manner(at_end=False))
            status = int(outcome.refused or bool(outcome.damage))
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return status == 0
