"""One tenant's objects, few or many, against a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.cache.tenant_objects import FEW_MAX, TenantObjects

BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}'
namespaces = st.sampled_from(["", "a", "b"])
names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
steps = st.lists(st.tuples(namespaces, names, st.booleans()), max_size=60)


def entry(namespace: str, name: str) -> CacheEntry:
    return CacheEntry(Key(CONFIG_MAPS, TenantId("acme"), namespace, name), Revision(1), BODY)


def places(found: TenantObjects, namespace: str | None, after: tuple[str, str]) -> list[tuple[str, str]]:
    return [(each.key.namespace, each.key.name) for each in found.ordered(namespace, after)]


@given(steps, namespaces, names)
def test_any_number_of_objects_is_kept_alike(
    changes: list[tuple[str, str, bool]], namespace: str, name: str
) -> None:
    objects, model = TenantObjects(), dict[tuple[str, str], CacheEntry]()
    for at_namespace, at_name, deletes in changes:
        place = (at_namespace, at_name)
        if deletes:
            assert objects.remove(*place) is model.pop(place, None)
        else:
            new = entry(*place)
            assert objects.put(new) is model.get(place)
            model[place] = new
        assert objects.size == len(model)
    assert objects.get(namespace, name) is model.get((namespace, name))
    assert places(objects, None, ("", "")) == sorted(model)
    assert places(objects, None, (namespace, name)) == sorted(
        each for each in model if each > (namespace, name)
    )
    own = sorted(each for each in model if each[0] == namespace)
    assert places(objects, namespace, ("", "")) == own
    assert places(objects, namespace, ("", name)) == [each for each in own if each[1] > name]
    assert objects.count(namespace) == len(own) and objects.count(None) == len(model)
    flat = {
        (each, inner): found for each, of in objects.by_namespace().items() for inner, found in of.items()
    }
    assert flat == model


def test_a_list_that_began_is_not_disturbed_by_changes() -> None:
    objects = TenantObjects()
    for number in range(FEW_MAX):
        objects.put(entry("a", f"n{number}"))
    listing = objects.ordered(None)
    first = next(listing)
    objects.remove("a", "n1")
    objects.put(entry("a", "n9"))
    assert [each.key.name for each in (first, *listing)] == [f"n{number}" for number in range(FEW_MAX)]
