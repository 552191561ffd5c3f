"""What typed Go clients send, taken apart; and bytes that no client sends, refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.api.protobuf.decode import MAGIC, decode


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (2**64 - 1))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def entry(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


META = field(1, "web") + field(3, "") + field(8, b"") + field(11, entry("app", "web"))


def test_zero_values_that_json_leaves_out_are_left_out() -> None:
    messages = decode(envelope("v1", "ConfigMap", field(1, META) + field(2, entry("a", "b"))))
    metadata = {"name": "web", "labels": {"app": "web"}}
    assert messages == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


def test_zero_behind_a_pointer_is_kept() -> None:
    spec = field(1, 0) + field(5, 0)  # replicas is a pointer in Go, minReadySeconds is not
    messages = decode(envelope("apps/v1", "Deployment", field(2, spec)))
    assert messages["spec"] == {"replicas": 0}


def test_negative_numbers() -> None:
    messages = decode(envelope("scheduling.k8s.io/v1", "PriorityClass", field(2, -5)))
    assert messages["value"] == -5


def test_times_quantities_and_bytes_take_their_json_form() -> None:
    taint = field(1, "k") + field(3, "NoExecute") + field(4, field(1, 1_700_000_000) + field(2, 0))
    messages = decode(envelope("v1", "Node", field(2, field(5, taint))))
    assert messages["spec"]["taints"] == [
        {"key": "k", "effect": "NoExecute", "timeAdded": "2023-11-14T22:13:20Z"}
    ]
    messages = decode(envelope("v1", "ResourceQuota", field(2, field(1, entry("cpu", field(1, "2"))))))
    assert messages["spec"] == {"hard": {"cpu": "2"}}
    messages = decode(envelope("v1", "Secret", field(2, entry("a", b"\x00\xff"))))
    assert messages["data"] == {"a": "AP8="}


@pytest.mark.parametrize(
    ("raw", "value"), [(field(1, 0) + field(2, 8080), 8080), (field(1, 1) + field(3, "http"), "http")]
)
def test_int_or_string(raw: bytes, value: int | str) -> None:
    port = field(3, 80) + field(4, raw)
    messages = decode(envelope("v1", "Service", field(2, field(1, port))))
    assert messages["spec"]["ports"] == [{"port": 80, "targetPort": value}]


def test_an_inlined_struct_joins_its_parent() -> None:
    volume = field(1, "v") + field(2, field(2, b""))
    messages = decode(envelope("v1", "Pod", field(2, field(1, volume))))
    assert messages["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_options_of_every_group_are_metas() -> None:
    messages = decode(envelope("policy/v1", "DeleteOptions", field(1, 0)))
    assert messages["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC + b"\xff",
        envelope("v1", "Nonsense", b""),
        envelope("v1", "Pod", field(999, "x")),
        envelope("v1", "Pod", field(1, 5)),
        envelope("v1", "Pod", b"\x0a\x7f"),
        envelope("v1", "Pod", field(1, field(1, b"\xff\xfe"))),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode(body)


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Node", "Service", "Secret", "Event"]))
def test_no_bytes_do_more_than_be_refused(raw: bytes, kind: str) -> None:
    try:
        decode(envelope("v1", kind, raw))
    except BadRequest:
        pass
