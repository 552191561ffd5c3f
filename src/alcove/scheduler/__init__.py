"""The scheduler: pods of all planes, nodes of ring0, fair between tenants.

A core without I/O: events come in (`events`), decisions go out (`decisions`), time is given. What it
knows is held as arrays (`snapshot`), so that one pod is judged against all nodes at once; two lists
say how: `filters.FILTERS` and `scores.SCORES`.
"""
