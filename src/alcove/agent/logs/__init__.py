"""Container logs on this node: reading and rotation.

entries    one line of a log file, as written by conmon
files      the files of a log, oldest first, and offsets in them
reader     reads a log with the options of kubectl logs, including follow
rotation   log rotation
"""
