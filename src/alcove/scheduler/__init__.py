"""The scheduler: assigns the pods of all planes to ring0's nodes, fairly between tenants.

The core does no I/O: it takes events (`events`), a clock, and returns decisions (`decisions`). Node state is
held in arrays (`snapshot`), so that a pod is evaluated against all nodes in one operation, by two lists of
plugins: `filters.FILTERS` and `scores.SCORES`.
"""
