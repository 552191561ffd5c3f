"""Any sequence of writes, reads, compactions and restarts leaves a store equal to a simple model."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from msgspec import Struct
from msgspec.structs import replace

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import (
    ABSENT,
    Compacted,
    RevisionMismatch,
    Store,
    StoreChangeType,
    StoreEvent,
    StoreRecord,
    WriteOp,
)

Open = Callable[[], Awaitable[Store]]
T = TypeVar("T")

KEYS = [
    Key(GroupResource(group, resource), TenantId(tenant), namespace, name)
    for group, resource in (("", "pods"), ("apps", "deployments"))
    for tenant in ("a", "b")
    for namespace, name in (("", "x"), ("n", "x"), ("n", "y"))
]
keys = st.sampled_from(KEYS)
bodies = st.binary(max_size=20)
positions = st.floats(0, 1, exclude_max=True)
"""A relative position in the uncompacted history."""


class RequestedOp(Struct, frozen=True):
    """One operation, with the kind of `expected`, which is filled in from the model's state."""

    key: Key
    body: bytes | None
    last: bytes | None
    keeps: bool
    expect: str


requested_ops = st.builds(
    RequestedOp,
    keys,
    st.none() | bodies,
    st.none() | bodies,
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["anything", "anything", "right", "right", "absent", "wrong"]),
)
transactions = st.lists(requested_ops, min_size=1, max_size=4, unique_by=lambda op: op.key)


class Model:
    """The store's promises in a few lines, with the whole history."""

    def __init__(self, revision: Revision, compacted: Revision) -> None:
        self.states: dict[Revision, dict[Key, StoreRecord]] = {revision: {}}
        self.events: list[StoreEvent] = []
        self.revision = revision
        self.compacted = compacted

    @property
    def state(self) -> dict[Key, StoreRecord]:
        return self.states[self.revision]

    def actual(self, key: Key) -> Revision:
        return self.state[key].revision if key in self.state else ABSENT

    def mismatches(self, ops: list[WriteOp]) -> set[Key]:
        return {op.key for op in ops if op.expected not in (None, self.actual(op.key))}

    def count_changes(self, ops: list[WriteOp]) -> int:
        return sum((op.body is not None or op.key in self.state) and not op.keeps for op in ops)

    def apply(self, ops: list[WriteOp], revision: Revision) -> None:
        state = dict(self.state)
        events = []
        for op in ops:
            if op.keeps:
                continue
            old = state.pop(op.key, None)
            if op.body is not None:
                state[op.key] = StoreRecord(op.key, revision, op.body)
                change = StoreChangeType.CREATED if old is None else StoreChangeType.UPDATED
                events.append(StoreEvent(change, op.key, revision, op.body))
            elif old is not None:
                last = op.last if op.last is not None else old.body
                events.append(StoreEvent(StoreChangeType.DELETED, op.key, revision, last))
        if events:
            assert revision > self.revision
            self.events += events
            self.states[revision] = state
            self.revision = revision
        else:
            assert revision >= self.revision


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Open) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.open_store = open_store
        self.store = self.run(self.opened())
        self.model = Model(self.run(self.store.revision()), self.run(self.store.compacted()))

    async def opened(self) -> Store:
        return await self.open_store()

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    def ops(self, requested: list[RequestedOp]) -> list[WriteOp]:
        return [
            WriteOp(request.key, request.body, self.expected(request), request.last, request.keeps)
            for request in requested
        ]

    def expected(self, request: RequestedOp) -> Revision | None:
        match request.expect:
            case "anything":
                return None
            case "absent":
                return ABSENT
            case "right":
                return self.model.actual(request.key)
            case _:
                return Revision(self.model.revision + 1)

    def revision_at(self, position: float) -> Revision:
        kept = [revision for revision in self.model.states if revision >= self.model.compacted]
        return kept[int(position * len(kept))]

    @rule(requested=transactions)
    def write(self, requested: list[RequestedOp]) -> None:
        ops = self.ops(requested)
        wrong = self.model.mismatches(ops)
        try:
            revision = self.run(self.store.write(ops))
            assert not wrong
            self.model.apply(ops, revision)
        except RevisionMismatch as mismatch:
            assert mismatch.key in wrong
            assert mismatch.actual == self.model.actual(mismatch.key)

    @rule(several=st.lists(transactions, min_size=2, max_size=6))
    def write_together(self, several: list[list[RequestedOp]]) -> None:
        # Of two that delete the same object, either may be first: the event must not tell which one was.
        lasts: dict[Key, bytes | None] = {}
        writes = [
            [replace(op, last=lasts.setdefault(op.key, op.last)) for op in self.ops(requested)]
            for requested in several
        ]

        async def together() -> list[Revision | BaseException]:
            return await asyncio.gather(*map(self.store.write, writes), return_exceptions=True)

        outcomes = self.run(together())
        assert all(isinstance(outcome, int | RevisionMismatch) for outcome in outcomes)
        done: dict[Revision, list[list[WriteOp]]] = {}
        for outcome, ops in zip(outcomes, writes, strict=True):
            if isinstance(outcome, int):
                done.setdefault(Revision(outcome), []).append(ops)
        for revision in sorted(done):
            if revision > self.model.revision:
                # One took the revision; others may have found there nothing left to change, and what they expected.
                possible = [ops for ops in done[revision] if not self.model.mismatches(ops)]
                self.model.apply(max(possible, key=self.model.count_changes), revision)

    @rule(
        position=positions,
        by_resource=st.booleans(),
        by_tenant=st.booleans(),
        by_namespace=st.booleans(),
        key=keys,
    )
    def read(self, position: float, by_resource: bool, by_tenant: bool, by_namespace: bool, key: Key) -> None:
        at = self.revision_at(position)
        resource = key.resource if by_resource else None
        tenant = key.tenant if by_tenant else None
        namespace = key.namespace if by_namespace else None
        found = self.run(self.store.snapshot(at, resource=resource, tenant=tenant, namespace=namespace))
        assert found.revision == at
        assert {record.key: record for record in found.records} == {
            one: record
            for one, record in self.model.states[at].items()
            if resource in (None, one.resource)
            and tenant in (None, one.tenant)
            and namespace in (None, one.namespace)
        }

    @rule(position=positions)
    def follow(self, position: float) -> None:
        after = self.revision_at(position)
        expected = [event for event in self.model.events if event.revision > after]

        async def followed() -> list[StoreEvent]:
            events: list[StoreEvent] = []
            async with asyncio.timeout(60), self.store.feed(after) as feed:
                while len(events) < len(expected):
                    events += await anext(feed)
            return events

        # The operations of one transaction have no order among each other.
        found = self.run(followed())
        assert [event.revision for event in found] == [event.revision for event in expected]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))

    @rule(position=positions)
    def compact(self, position: float) -> None:
        upto = self.revision_at(position)
        self.run(self.store.compact(upto))
        self.model.compacted = max(self.model.compacted, upto)
        assert self.run(self.store.compacted()) == self.model.compacted

    @precondition(lambda self: self.model.compacted > min(self.model.states))
    @rule()
    def ask_for_the_compacted(self) -> None:
        forgotten = max(revision for revision in self.model.states if revision < self.model.compacted)
        try:
            self.run(self.store.snapshot(forgotten))
        except Compacted as error:
            assert error.compacted == self.model.compacted
        else:
            raise AssertionError("history that is gone was served")

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.run(self.opened())
        assert self.run(self.store.revision()) >= self.model.revision
        found = self.run(self.store.compacted())
        # Before the first write there is nothing to compact: etcd, which begins at 1, does not distinguish 1 from 0.
        assert found == self.model.compacted or (found == 0 and self.model.compacted == 1)


# Encryption is a layer over SQLite that has the contract's tests; the model is for what is beneath.
@pytest.mark.parametrize(
    "new_location",
    ["sqlite", "etcd", *(pytest.param(each, marks=pytest.mark.slow) for each in ("encrypted", "served"))],
    indirect=True,
)
def test_store_is_equal_to_its_model(new_location: Callable[[], Open]) -> None:
    quick = settings(
        max_examples=20,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )

    class Placed(StoreMachine):
        def __init__(self) -> None:
            super().__init__(new_location())

    run_state_machine_as_test(Placed, settings=quick)
