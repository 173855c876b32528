"""wick bench: how fast operators run, beside torch and beside what the machine allows.

    run.py       the whole of it: what is asked for (asked.py), measuring (work.py, again.py), reporting
    target.py    which operators, and what is known of them: reference, baselines, sizes
    shapes.py    sizes from NAME.shapes.txt, or from the signature
    inputs.py    the tensors of one call
    timing.py    rounds in which every contender is timed once
    host.py      a CPU: pinned threads, emptied caches       cuda.py   a GPU: events, L2, clocks
    floor.py     the least time a call can take here, from its bytes and flops
    rows.py      one measured row; verdict.py puts it into words
    table.py, records.py, plots.py, page.py, compare.py, profiling.py   what is made of the rows

Nothing here is imported by `import wick`.
"""
