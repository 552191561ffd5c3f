"""The watch cache: every object's encoded bytes, kept in commit order beside what finds them.

Reads never touch the store. An object is decoded once when it arrives, for its labels, and again
only for whoever needs its fields.
"""
