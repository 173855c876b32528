"""What is judged, a file each. A judge takes a subject and a case and returns a Result.

values.py      forward, gradient and memory: what a guarded call leaves, against the reference
again.py       repeat: the same call gives the same result, whatever was called before
threads.py     threads: and however its loops are cut, and whoever else calls it
shared.py      threads: and nothing that one piece or caller writes is another's as well
leaks.py       leak: and leaves nothing behind
autograd.py    gradient: as torch calls it, checked by finite differences
second.py      gradient: and so is the gradient of the gradient
doubt.py       gradient: whose fault a difference is, where the reference has a wrong gradient itself
doors.py       refuse: wrong calls get an error; opcheck: torch's own tests of an operator
bounds.py      refuse: and so do places right behind the end of what they are in
batch.py       opcheck: rows of `batch` dims are what they are among others
huge.py        huge: more than 2^31 elements
stream.py      stream: on a GPU, streams and captured graphs
"""
