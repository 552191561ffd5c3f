"""The form of a row in the embedded store's log, as both its processes know it. Imports nothing.

A row's id is its revision and its place in the transaction, so that rows sort as the log does.
"""

POSITION_BITS = 8
"""Room for the operations of one transaction."""

COLUMNS = ("id", "change", "replaces", "resource", "tenant", "namespace", "name", "body")
WIDTH = len(COLUMNS)

DELETED = 3
"""The value of `change` in a row that ends its key's life."""


def revision_of(row_id: int) -> int:
    return row_id >> POSITION_BITS


def first_id(revision: int) -> int:
    """The least id a row of `revision` can have."""
    return revision << POSITION_BITS
