"""Plans a commit: computes log rows from transactions and the newest rows of their keys.

Pure except for `heads`, which it updates; `CommitPlan.undo` reverts that if the commit fails. The
transactions of a plan see each other in order; one with a mismatch does not affect the others.
"""

from collections.abc import Mapping, Sequence

from alcove.api.ids import Key, Revision
from alcove.store.base import ABSENT, RevisionMismatch, StoreChangeType, StoreEvent, WriteOp
from alcove.store.keys import resource_text
from alcove.store.sqlite_rows import POSITION_BITS, WIDTH, first_id

Heads = dict[Key, int]
"""The id of the newest row of every existing key."""


class CommitPlan:
    """One commit: the rows' values, concatenated, their events, and each transaction's outcome."""

    __slots__ = ("events", "first_row_id", "outcomes", "revision", "undone", "values", "wanted")

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        """The newest revision after this commit."""
        self.first_row_id = first_id(revision + 1)
        self.values: list[object] = []
        self.events: list[StoreEvent] = []
        self.outcomes: list[Revision | RevisionMismatch] = []
        self.wanted: dict[int, int] = {}
        """Deletes without a last body: position of the row → id of the row that has the body."""
        self.undone: list[tuple[Key, int]] = []

    def undo(self, heads: Heads) -> None:
        for key, row_id in reversed(self.undone):
            heads.pop(key, None)
            if row_id:
                heads[key] = row_id

    def fill(self, bodies: Mapping[int, bytes]) -> None:
        """Set the bodies of the events in `wanted`."""
        for position, body in bodies.items():
            event = self.events[position]
            self.events[position] = StoreEvent(event.change, event.key, event.revision, body)


def plan(transactions: Sequence[Sequence[WriteOp]], heads: Heads, revision: Revision) -> CommitPlan:
    commit = CommitPlan(revision)
    for ops in transactions:
        mismatch = _mismatch(ops, heads)
        if mismatch is None:
            _append(commit, ops, heads)
        commit.outcomes.append(mismatch or commit.revision)
    return commit


def _mismatch(ops: Sequence[WriteOp], heads: Heads) -> RevisionMismatch | None:
    for op in ops:
        if op.expected is not None:
            actual = heads.get(op.key, ABSENT) >> POSITION_BITS
            if actual != op.expected:
                return RevisionMismatch(op.key, Revision(actual))
    return None


def _append(commit: CommitPlan, ops: Sequence[WriteOp], heads: Heads) -> None:
    revision = Revision(max(commit.revision, *(op.after for op in ops)) + 1)
    row_id = revision << POSITION_BITS
    for op in ops:
        if op.keeps:
            continue
        key, body = op.key, op.body
        # Removed first: the cache keeps the new key, and an equal one kept here would take memory for every object.
        replaced = heads.pop(key, 0)
        if body is not None:
            change = StoreChangeType.UPDATED if replaced else StoreChangeType.CREATED
            heads[key] = row_id
        elif replaced:
            change = StoreChangeType.DELETED
            body = op.last if op.last is not None else _last_body(commit, replaced)
        else:
            continue
        commit.undone.append((key, replaced))
        text = resource_text(key.resource)
        commit.values += (row_id, change.value, replaced, text, key.tenant, key.namespace, key.name, body)
        commit.events.append(StoreEvent(change, key, revision, body))
        commit.revision = revision
        row_id += 1


def _last_body(commit: CommitPlan, row_id: int) -> bytes:
    """The body of a row if it is in this plan; else empty, and recorded in `wanted`."""
    if row_id >= commit.first_row_id:
        return commit.events[commit.values[::WIDTH].index(row_id)].body
    commit.wanted[len(commit.events)] = row_id
    return b""
