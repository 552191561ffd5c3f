from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import DEPLOYMENTS
from alcove.store.base import ABSENT, RevisionMismatch, StoreChangeType, WriteOp
from alcove.store.sqlite_plan import Heads, plan
from alcove.store.sqlite_rows import WIDTH, first_id

A, B, C = (Key(DEPLOYMENTS, TenantId("acme"), "default", name) for name in "abc")


def test_rows_carry_revision_place_and_what_they_replace() -> None:
    heads: Heads = {A: first_id(7) + 1}
    made = plan([[WriteOp(A, b"new"), WriteOp(B, b"b")]], heads, Revision(9))
    first, second = first_id(10), first_id(10) + 1
    assert made.values == [
        *(
            first,
            StoreChangeType.UPDATED.value,
            first_id(7) + 1,
            "deployments.apps",
            "acme",
            "default",
            "a",
            b"new",
        ),
        *(second, StoreChangeType.CREATED.value, 0, "deployments.apps", "acme", "default", "b", b"b"),
    ]
    assert heads == {A: first, B: second}
    assert made.outcomes == [10]
    assert made.revision == 10


def test_transactions_see_those_before_them_and_a_refused_one_takes_no_revision() -> None:
    heads: Heads = {}
    create = [WriteOp(A, b"1", expected=ABSENT)]
    made = plan([create, create, [WriteOp(A, b"2", expected=Revision(1))]], heads, Revision(0))
    first, refused, second = made.outcomes
    assert (first, second) == (1, 2)
    assert isinstance(refused, RevisionMismatch)
    assert refused.actual == 1


def test_delete_without_last_body_wants_it_from_the_file_or_takes_it_from_the_plan() -> None:
    heads: Heads = {A: first_id(3)}
    made = plan([[WriteOp(A, None)], [WriteOp(B, b"brief")], [WriteOp(B, None)]], heads, Revision(5))
    assert made.wanted == {0: first_id(3)}
    made.fill({0: b"from the file"})
    assert [event.body for event in made.events] == [b"from the file", b"brief", b"brief"]
    assert made.values[2 * WIDTH + WIDTH - 1] == b"brief"
    assert heads == {}


def test_nothing_to_change_takes_no_revision() -> None:
    made = plan([[WriteOp(A, None)]], {}, Revision(5))
    assert (made.outcomes, made.events, made.revision) == ([5], [], 5)


operations = st.builds(
    WriteOp, st.sampled_from([A, B, C]), st.none() | st.just(b"x"), st.sampled_from([None, 0, 1])
)
transactions = st.lists(st.lists(operations, min_size=1, max_size=3, unique_by=lambda op: op.key), max_size=8)


@given(transactions, st.dictionaries(st.sampled_from([A, B, C]), st.just(first_id(1))))
def test_undo_restores_the_heads(writes: list[list[WriteOp]], heads: Heads) -> None:
    before = dict(heads)
    plan(writes, heads, Revision(1)).undo(heads)
    assert heads == before
