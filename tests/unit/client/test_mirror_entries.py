"""A tenant's objects in a mirror, few or many, against a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.client import mirror_entries
from alcove.client.mirror_entries import MirrorEntries, MirrorEntry

steps = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=60)


@given(steps)
def test_any_number_of_entries_is_kept_alike(changes: list[tuple[int, bool]]) -> None:
    entries: MirrorEntries = ()
    model: dict[tuple[str, str], MirrorEntry] = {}
    for revision, (number, removes) in enumerate(changes):
        name = ("default", f"n{number}")
        if removes:
            entries = mirror_entries.without_entry(entries, name)
            model.pop(name, None)
        else:
            model[name] = MirrorEntry(name, revision, b"{}", ())
            entries = mirror_entries.with_entry(entries, model[name])
        assert list(mirror_entries.each(entries)) == list(model.values())
        assert mirror_entries.find(entries, name) is model.get(name)


def test_an_entry_that_shares_no_bytes_has_its_own() -> None:
    assert MirrorEntry(("", "n"), 1, b"{}", ()).body(TenantId("acme")) == b"{}"
