"""What is judged, a file each. A judge takes a subject and a case and returns a Result.

values.py      forward, gradient and memory: what a guarded call leaves, against the reference
again.py       repeat: the same call gives the same result, whatever was called before
threads.py     threads: and however its loops are cut, and whoever else calls it
leaks.py       leak: and leaves nothing behind
autograd.py    gradient: as torch calls it, checked by finite differences
doors.py       refuse: wrong calls get an error; opcheck: torch's own tests of an operator
huge.py        huge: more than 2^31 elements
stream.py      stream: on a GPU, streams and captured graphs
"""
