"""Packed bodies are the same bytes again, whatever they are, and need little memory where many are alike."""

import gc

import msgspec
import orjson
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.objects import Object
from alcove.api.shared_bodies import PackedBody, SharedBodies

TEXTS = st.text(max_size=8) | st.sampled_from(
    [
        "5adec381-6a2a-4395-b83d-4b7f02c45b20",
        "2026-11-16T13:21:14Z",
        "10.96.0.1",
        "12",
        "acme",
        "acme/default",
        '"acme"',
        "\x00",
    ]
)
VALUES = st.recursive(
    TEXTS | st.integers(0, 10**9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["acme", "a", "default", "2026", "10.96.0.1", "metadata", "4395", "name-of-acme"])


@given(st.lists(VALUES, max_size=3), NAMES, NAMES, st.binary(max_size=5))
def test_a_body_is_the_same_after_packing(values: list[object], tenant: str, name: str, raw: bytes) -> None:
    bodies = SharedBodies()
    meta = {"tenant": tenant, "name": name, "selfLink": f"/tenants/{tenant}/things/{name}"}
    for body in (orjson.dumps({"metadata": meta, "values": values}), raw):
        for _ in range(3):
            packed = bodies.pack(body, tenant, name)
            unpacked = packed if isinstance(packed, bytes) else packed.unpack(tenant, name)
            assert unpacked == body


def namespace(number: int) -> tuple[bytes, str]:
    tenant = f"tenant-{number}"
    uid = f"{number:08x}-0000-4000-8000-0123456789ab"
    meta: Object = {
        "name": "default",
        "tenant": tenant,
        "uid": uid,
        "resourceVersion": str(number),
        "creationTimestamp": f"2026-01-01T00:00:{number % 60:02d}Z",
        "selfLink": f"/tenants/{tenant}/namespaces/default",
        "managedFields": [{"manager": "controllers", "fieldsV1": {f'k:{{"uid":"{uid}"}}': {}}}],
    }
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": ["x" * 300]}}
    return orjson.dumps(obj), tenant


def divider(number: int) -> tuple[bytes, str]:
    vni = 4711 * number
    meta: Object = {
        "name": f"vni-{vni}-d0",
        "annotations": {"arktos.futurewei.com/network": f"t-{number}/net"},
    }
    obj = {
        "apiVersion": "mizar.com/v1",
        "kind": "Divider",
        "metadata": meta,
        "spec": {"vni": vni, "vpc": "vpc0"},
    }
    return orjson.dumps(obj), f"vni-{vni}-d0"


def test_objects_that_differ_in_a_number_and_the_network_they_are_made_for_are_packed() -> None:
    bodies = SharedBodies()
    for number in range(1, 10):
        body, name = divider(number)
        packed = bodies.pack(body, "system", name)
        if number > 1:
            assert isinstance(packed, PackedBody) and packed.unpack("system", name) == body


def test_what_many_objects_have_in_common_is_kept_once() -> None:
    bodies = SharedBodies()
    samples = [namespace(number) for number in range(1000)]
    packed = [bodies.pack(body, tenant, "default") for body, tenant in samples]
    assert isinstance(packed[0], bytes), "it may be the only one of its kind"
    templates = {each.template for each in packed[1:] if isinstance(each, PackedBody)}
    assert len(templates) == 1
    own = sum(len(each.own) for each in packed[1:] if isinstance(each, PackedBody))
    assert own < 0.12 * sum(len(body) for body, _tenant in samples)
    for each, (body, tenant) in zip(packed[1:], samples[1:], strict=True):
        assert isinstance(each, PackedBody) and each.unpack(tenant, "default") == body


def test_templates_go_with_the_last_body() -> None:
    bodies = SharedBodies()
    packed = [bodies.pack(*namespace(number), "default") for number in range(3)]
    assert len(bodies._templates) == 1
    packed.clear()
    gc.collect()
    assert len(bodies._templates) == 0


def test_bodies_that_nothing_is_like_leave_nothing_but_a_bounded_memory_of_them() -> None:
    bodies = SharedBodies(seen_max=10)
    for number in range(100):
        body = msgspec.json.encode({f"field-{number}-x": True})
        assert bodies.pack(body, "acme", "web") is body
    assert len(bodies._seen) == 10 and not bodies._templates
