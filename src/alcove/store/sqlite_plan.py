"""Decides what a commit writes: transactions and the newest rows of their keys in, log rows out.

Pure but for `heads`, which it moves forward; `CommitPlan.undo` moves it back when the commit fails. The
transactions of a plan see each other in order; one that does not hold leaves the others alone.
"""

from collections.abc import Mapping, Sequence

from alcove.api.ids import Key, Revision
from alcove.store.base import ABSENT, RevisionMismatch, StoreChangeType, StoreEvent, WriteOp
from alcove.store.keys import resource_text
from alcove.store.sqlite_rows import POSITION_BITS, WIDTH, first_id

Heads = dict[Key, int]
"""The id of the newest row of every key that exists."""


class CommitPlan:
    """One commit: the rows' values end to end, the events they are, and each transaction's outcome."""

    __slots__ = ("events", "first_row_id", "outcomes", "revision", "undone", "values", "wanted")

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        """The newest revision, once this is committed."""
        self.first_row_id = first_id(revision + 1)
        self.values: list[object] = []
        self.events: list[StoreEvent] = []
        self.outcomes: list[Revision | RevisionMismatch] = []
        self.wanted: dict[int, int] = {}
        """Rows that lack a body, by place: a delete that did not say it. The id of the row that has it."""
        self.undone: list[tuple[Key, int]] = []

    def undo(self, heads: Heads) -> None:
        for key, row_id in reversed(self.undone):
            _move(heads, key, row_id)

    def fill(self, bodies: Mapping[int, bytes]) -> None:
        """Puts the wanted bodies into their events."""
        for place, body in bodies.items():
            event = self.events[place]
            self.events[place] = StoreEvent(event.change, event.key, event.revision, body)


def plan(transactions: Sequence[Sequence[WriteOp]], heads: Heads, revision: Revision) -> CommitPlan:
    made = CommitPlan(revision)
    for ops in transactions:
        mismatch = _mismatch(ops, heads)
        if mismatch is None:
            _append(made, ops, heads)
        made.outcomes.append(mismatch or made.revision)
    return made


def _mismatch(ops: Sequence[WriteOp], heads: Heads) -> RevisionMismatch | None:
    for op in ops:
        if op.expected is not None:
            actual = heads.get(op.key, ABSENT) >> POSITION_BITS
            if actual != op.expected:
                return RevisionMismatch(op.key, Revision(actual))
    return None


def _append(made: CommitPlan, ops: Sequence[WriteOp], heads: Heads) -> None:
    revision = Revision(made.revision + 1)
    row_id = revision << POSITION_BITS
    for op in ops:
        if op.keeps:
            continue
        key, body = op.key, op.body
        replaced = heads.get(key, 0)
        if body is not None:
            change = StoreChangeType.UPDATED if replaced else StoreChangeType.CREATED
        elif replaced:
            change = StoreChangeType.DELETED
            body = op.last if op.last is not None else _last_body(made, replaced)
        else:
            continue
        made.undone.append((key, replaced))
        _move(heads, key, 0 if change is StoreChangeType.DELETED else row_id)
        text = resource_text(key.resource)
        made.values += (row_id, change.value, replaced, text, key.tenant, key.namespace, key.name, body)
        made.events.append(StoreEvent(change, key, revision, body))
        made.revision = revision
        row_id += 1


def _last_body(made: CommitPlan, row_id: int) -> bytes:
    """The body of a row: this plan's own, or empty for now and noted as wanted."""
    if row_id >= made.first_row_id:
        return made.events[made.values[::WIDTH].index(row_id)].body
    made.wanted[len(made.events)] = row_id
    return b""


def _move(heads: Heads, key: Key, row_id: int) -> None:
    if row_id:
        heads[key] = row_id
    else:
        heads.pop(key, None)
