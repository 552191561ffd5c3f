"""The census is what a count of everything would be, after any changes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey, TenantKey
from alcove.client.plane_mirror import _encode
from alcove.client.resources import CONFIG_MAPS, PODS, Resource
from alcove.controllers.object_counts import ObjectCounts, TenantObject

NAMES = st.sampled_from(["x", "y"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop"]),
        st.sampled_from([PODS, CONFIG_MAPS]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["default", "web"]),
        NAMES,
        st.lists(st.sampled_from(["u1", "u2"]), max_size=2),
    ),
    max_size=40,
)
Mark = tuple[Resource, str, str, str]


def described(owners: list[str]) -> Object:
    return {"metadata": {"ownerReferences": [{"uid": uid} for uid in owners]}}


@given(STEPS)
def test_it_counts_right(steps: list[tuple[str, Resource, str, str, str, list[str]]]) -> None:
    census = ObjectCounts()
    model: dict[Mark, Object] = {}
    for what, resource, tenant, namespace, name, owners in steps:
        mark = (resource, tenant, namespace, name)
        key = ObjectKey(HOME, TenantId(tenant), namespace, name)
        old, new = model.get(mark), described(owners)
        body = _encode(old) if old else b""
        if what == "put":
            census.note(
                resource, ObjectChange(ChangeType.UPDATED if old else ChangeType.ADDED, key, new, body)
            )
            model[mark] = new
        elif old is not None:
            census.note(resource, ObjectChange(ChangeType.DELETED, key, new, body))
            del model[mark]
    for tenant in ("a", "b"):
        tenant_key = TenantKey(HOME, TenantId(tenant))
        for where in ("default", "web", None):
            found = Counter(census.resources(tenant_key, where))
            assert set(found.values()) <= {1}
            assert set(found) == {r for r, t, n, _ in model if t == tenant and where in (None, n)}
        for uid in ("u1", "u2"):
            expected = {
                TenantObject(resource, namespace, name)
                for (resource, t, namespace, name), obj in model.items()
                if t == tenant and uid in [owner["uid"] for owner in obj["metadata"]["ownerReferences"]]
            }
            assert set(census.dependents(tenant_key, uid)) == expected


def test_nothing_is_kept_of_what_is_gone() -> None:
    census = ObjectCounts()
    key = ObjectKey(HOME, TenantId("a"), "default", "x")
    census.note(PODS, ObjectChange(ChangeType.ADDED, key, described(["u"])))
    census.note(PODS, ObjectChange(ChangeType.DELETED, key, described(["u"])))
    assert census._counts == {} and census._dependents == {}
