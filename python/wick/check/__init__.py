"""`wick check`: is an operator right? Judged from its signature and a reference.

    case.py        one call, in words: sizes, types, values, layouts; printed, read, made smaller
    operator.py    what is known of an operator: its parameters and its gradient
    draw.py        from a case to tensors
    reference.py   the function beside the source that says what is right
    noise.py       how far apart right answers may be: the reference with rounding errors;
                   sums.py, which of torch's operations are sums
    pointers.py    what whole numbers are, as the reference has it: places, data, of any size
    oracle.py      who says what is right, in every voice: the reference, or a wider type
    compare.py     a result against the reference
    call.py        a call: its arguments, and what it should give; forward.py and backward.py make them
    guarded.py     runs it on the CPU, memory guarded (src/trial); device.py on a GPU; outside.py, in a
                   process of its own, which may end
    plan.py        which cases, plan_huge.py of them those beyond 2^31 elements; sizes.py, which fit together
    judges/        what is judged, a file each; finding.py, what they say
    loaded.py      the target loaded, its cases planned and judged
    worker.py      the process that does so; crew.py, the one that watches over it; phases.py, where it is
    turns.py       several such processes on one GPU
    records.py     what is asked for, and what comes of it
    run.py         the whole: who judges what (job.py), and when
    answers.py     what a worker's answer means, or its death; pace.py, how long cases take
    follow.py      what becomes of a finding; shrink.py, the smallest case that still fails
    report.py      what was found, for people and for programs; show.py, on a terminal

Nothing here is imported by `import wick`.
"""
