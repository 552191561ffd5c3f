"""The format of a row in the embedded store's log, shared by both processes. Imports nothing.

A row's id consists of its revision and its position in the transaction, so that rows sort in log order.
"""

POSITION_BITS = 8
"""Bits for the position of an operation in its transaction."""

COLUMNS = ("id", "change", "replaces", "resource", "tenant", "namespace", "name", "body")
WIDTH = len(COLUMNS)

DELETED = 3
"""The value of `change` in a row that deletes its key."""


def revision_of(row_id: int) -> int:
    return row_id >> POSITION_BITS


def first_id(revision: int) -> int:
    """The smallest id of a row of `revision`."""
    return revision << POSITION_BITS
