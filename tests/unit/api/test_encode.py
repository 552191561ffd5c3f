import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.encode import encode, splice
from alcove.api.errors import BadRequest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)
META = st.dictionaries(st.text(st.characters(codec="utf-8")), JSON)
OBJECT = st.fixed_dictionaries(
    {"kind": st.text(st.characters(codec="utf-8")), "apiVersion": st.text(st.characters(codec="utf-8"))},
    optional={"metadata": META, "spec": JSON, "status": JSON},
)


@given(OBJECT, st.integers(1, 2**63))
def test_spliced_body_is_the_object_with_its_revision(obj: dict[str, object], revision: int) -> None:
    meta = obj.get("metadata", {})
    assert isinstance(meta, dict)
    expected = {**obj, "metadata": {**meta, "resourceVersion": str(revision)}}

    assert orjson.loads(splice(encode(obj), revision)) == expected


def test_identity_comes_first_whatever_the_client_sent() -> None:
    body = encode({"spec": {"metadata": {}}, "metadata": {"name": "web"}, "kind": "Pod", "apiVersion": "v1"})

    assert body == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"metadata":{}}}'


def test_resource_version_is_left_out_and_the_object_untouched() -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "resourceVersion": "7"}}

    assert b"resourceVersion" not in encode(obj)
    assert obj["metadata"] == {"name": "web", "resourceVersion": "7"}


def test_kind_that_spells_the_mark_hides_nothing() -> None:
    body = encode({"apiVersion": "v1", "kind": '"metadata":{', "metadata": {}})

    assert orjson.loads(splice(body, 5))["metadata"] == {"resourceVersion": "5"}


def test_missing_metadata_is_made() -> None:
    assert splice(encode({"apiVersion": "v1", "kind": "Pod"}), 3).endswith(
        b'"metadata":{"resourceVersion":"3"}}'
    )


def test_values_that_json_cannot_hold_are_a_bad_request() -> None:
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]

    with pytest.raises(BadRequest):
        encode({"apiVersion": "v1", "kind": "Pod", "spec": deep})
    with pytest.raises(BadRequest):
        encode({"apiVersion": "v1", "kind": "Pod", "spec": 2**70})
