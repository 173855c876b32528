"""What Wick is measured against: one small module per peer.

Each has `missing()`, which returns None or says how to get the peer, and functions that build the
same operators as bench/call_time.py and bench/build_time.py do with Wick.
"""
