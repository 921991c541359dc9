"""The pure part: what a workflow body can say, and the session that drives it.

No I/O, no clock, no thread, no randomness: a body learns everything from recorded entries.
"""
