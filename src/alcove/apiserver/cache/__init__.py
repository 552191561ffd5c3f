"""The watch cache: the encoded bytes of every object, with recent history and the indexes to find them.

Reads never touch the store. An object is decoded once when it arrives, for its labels, and again only when
its fields are read.
"""
