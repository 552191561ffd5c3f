"""Containers' logs on this node: reading them, and keeping them from growing without end.

entries    one line of a log file, as conmon writes it
files      the files of a log, oldest first, and where in them the last lines begin
reading    what a client asks for of a log, also while it grows
rotation   who may keep how much
"""
