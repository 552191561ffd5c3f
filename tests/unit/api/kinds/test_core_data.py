"""Config maps, secrets, service accounts, events, endpoints: data by key, and their errors."""

import base64
import copy
from typing import Any

import pytest

from alcove.api.kinds.core import STRATEGIES
from alcove.api.objects import Object

CONFIG, SECRETS, EVENTS = STRATEGIES["configmaps"], STRATEGIES["secrets"], STRATEGIES["events"]
MEGABYTE = 1024 * 1024
SEALED = "Forbidden: field is immutable when `immutable` is set"


def messages(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_plain_texts_of_a_secret_become_data() -> None:
    secret: Object = {"stringData": {"a": "ä", "b": "2"}, "data": {"b": encoded(b"1"), "c": encoded(b"3")}}
    SECRETS.default(secret)
    assert secret == {
        "type": "Opaque",
        "data": {"a": encoded("ä".encode()), "b": encoded(b"2"), "c": encoded(b"3")},
    }
    assert SECRETS.fields["type"](secret) == "Opaque"


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ({"type": "Opaque", "data": {"a.b": ""}}, []),
        ({"type": "kubernetes.io/tls"}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ({"type": "kubernetes.io/basic-auth", "data": {"password": ""}}, []),
        ({"type": "kubernetes.io/basic-auth"}, [
            "data[username]: Required value", "data[password]: Required value"
        ]),
        ({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}, [
            "data[ssh-privatekey]: Required value"
        ]),
        ({"type": "kubernetes.io/service-account-token"}, [
            "metadata.annotations[kubernetes.io/service-account.name]: Required value"
        ]),
        ({"type": "kubernetes.io/dockerconfigjson"}, ["data[.dockerconfigjson]: Required value"]),
        ({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": encoded(b"{}")}}, []),
    ],
)  # fmt: skip
def test_secrets_of_a_type_have_its_keys(secret: Object, expected: list[str]) -> None:
    assert messages(SECRETS.validate(secret)) == expected


def test_an_invalid_docker_config_is_refused_without_showing_it() -> None:
    secret = {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded(b"hunter2")}}
    (error,) = messages(SECRETS.validate(secret))
    assert error.startswith('data[.dockercfg]: Invalid value: "<secret contents redacted>": ')
    assert "hunter2" not in error


def test_data_is_bounded_by_what_it_stands_for() -> None:
    assert messages(SECRETS.validate({"data": {"a": encoded(b"x" * MEGABYTE)}})) == []
    assert messages(SECRETS.validate({"data": {"a": encoded(b"x" * (MEGABYTE + 1))}})) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]
    assert messages(CONFIG.validate({"data": {"a": "x" * MEGABYTE}})) == []
    assert messages(CONFIG.validate({"data": {"a": "ä" * (MEGABYTE // 2), "b": "x"}})) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]
    half = "x" * (MEGABYTE // 2)
    both = {"data": {"a": half}, "binaryData": {"b": encoded(half.encode())}}
    assert messages(CONFIG.validate(both)) == []
    both["data"]["c"] = "x"
    assert len(CONFIG.validate(both)) == 1


def test_a_key_is_of_one_sort() -> None:
    assert messages(CONFIG.validate({"data": {"a": ""}, "binaryData": {"a": "", "..": ""}})) == [
        'data[a]: Invalid value: "a": duplicate of key present in binaryData',
        "binaryData[..]: Invalid value: \"..\": must not be '..'",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"metadata": {"labels": {"a": "b"}}}, []),
        ({"data": {"a": "2"}}, [f"data: {SEALED}"]),
        ({"immutable": False}, [f"immutable: {SEALED}"]),
        ({"binaryData": {"x": ""}}, [f"binaryData: {SEALED}"]),
    ],
)
def test_what_is_immutable_stays(changes: Object, expected: list[str]) -> None:
    old: Object = {"immutable": True, "data": {"a": "1"}}
    assert messages(CONFIG.validate_update({**copy.deepcopy(old), **changes}, old)) == expected
    open_one = {**old, "immutable": False}
    assert messages(CONFIG.validate_update({**open_one, **changes}, open_one)) == []


def test_a_secret_keeps_its_type() -> None:
    old: Object = {"type": "Opaque", "data": {}}
    assert messages(SECRETS.validate_update({"type": "x", "data": {}}, old)) == [
        'type: Invalid value: "x": field is immutable'
    ]


def test_a_service_account_mentions_secrets_by_name() -> None:
    account: Object = {"secrets": [{"name": "s", "namespace": "elsewhere", "uid": "u"}]}
    STRATEGIES["serviceaccounts"].prepare_create(account)
    assert account == {"secrets": [{"name": "s"}]}


def event(**changes: Any) -> Object:
    base: Object = {"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"}}
    return {**base, **changes}


NEW_EVENT = {
    "eventTime": "t",
    "reportingComponent": "a.b/c",
    "reportingInstance": "i",
    "action": "A",
    "reason": "R",
}
ELSEWHERE = 'involvedObject.namespace: Invalid value: "{}": does not match event.namespace'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (event(), []),
        (event(involvedObject={"namespace": "m"}), [ELSEWHERE.format("m")]),
        (event(involvedObject={}), [ELSEWHERE.format("")]),
        (event(metadata={"namespace": "default"}, involvedObject={}), []),
        (event(**NEW_EVENT), []),
        (event(metadata={"namespace": "kube-system"}, involvedObject={}, **NEW_EVENT), []),
        (event(**{**NEW_EVENT, "reason": "", "action": "x" * 129, "message": "x" * 1025}), [
            'action: Invalid value: "": can have at most 128 characters',
            "reason: Required value",
            'message: Invalid value: "": can have at most 1024 characters',
        ]),
    ],
)  # fmt: skip
def test_events(given: Object, expected: list[str]) -> None:
    assert messages(EVENTS.validate(given)) == expected


def test_events_are_selected_by_what_they_are_about() -> None:
    given = event(reason="R", type="Normal", source={"component": "c"}, reportingComponent="r")
    given["involvedObject"] = {"kind": "Pod", "name": "p", "namespace": "n", "uid": "u", "fieldPath": "spec"}
    read = {field: value(given) for field, value in EVENTS.fields.items()}
    assert read == {
        "involvedObject.kind": "Pod",
        "involvedObject.namespace": "n",
        "involvedObject.name": "p",
        "involvedObject.uid": "u",
        "involvedObject.apiVersion": "",
        "involvedObject.resourceVersion": "",
        "involvedObject.fieldPath": "spec",
        "reason": "R",
        "reportingComponent": "r",
        "source": "c",
        "type": "Normal",
    }
    assert EVENTS.fields["source"](event(reportingComponent="r")) == "r"
    assert EVENTS.validate_name is not None
    assert not EVENTS.validate_name("Web.17abc", False)


def test_endpoints_get_a_protocol() -> None:
    endpoints: Object = {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}
    STRATEGIES["endpoints"].default(endpoints)
    assert endpoints["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert messages(STRATEGIES["endpoints"].validate(endpoints)) == []
    assert messages(STRATEGIES["endpoints"].validate({"subsets": [{}]})) == [
        "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"
    ]
