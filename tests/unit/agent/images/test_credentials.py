"""Which of a pod's pull secrets fit an image, by tables."""

import base64

import orjson
import pytest

from alcove.agent.images.credentials import for_image
from alcove.agent.images.tools import RegistryCredentials
from alcove.api.objects import Object

PAIR = base64.b64encode(b"me:secret").decode()


def secret(auths: object, field: str = ".dockerconfigjson") -> Object:
    whole = {"auths": auths} if field == ".dockerconfigjson" else auths
    return {"data": {field: base64.b64encode(orjson.dumps(whole)).decode()}}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("h.example", "h.example"),
        ("https://h.example", "h.example"),
        ("https://h.example/v1/", "h.example"),
        ("http://h.example/v2", "h.example"),
        ("h.example/team", "h.example/team"),
        ("*.example", "h.example"),
        ("?.example/team/", "h.example/team"),
        ("*", None),
        ("*.*.example", None),
        ("h.example:5000", None),
        ("*.example:5000", None),
        ("other.example", None),
    ],
)
def test_where_an_entry_belongs(place: str, expected: str | None) -> None:
    [found] = for_image("h.example/team/web:v1", [secret({place: {"auth": PAIR}})])
    assert found == RegistryCredentials({expected: {"auth": PAIR}} if expected else {})


def test_names_without_a_host_leave_the_choice_to_the_tool() -> None:
    entries = {"a.example": {"auth": PAIR}, "https://b.example/v1/": {"auth": PAIR}}
    assert for_image("web:v1", [secret(entries)]) == [RegistryCredentials(entries)]


def test_only_credentials_are_read_from_a_secret() -> None:
    entry = {"username": "me", "password": "secret", "email": "x", "credHelpers": "evil"}
    [found] = for_image("h.example/a:1", [secret({"h.example": entry})])
    assert found == RegistryCredentials({"h.example": {"auth": PAIR}})
    [found] = for_image("h.example/a:1", [secret({"h.example": {"identitytoken": "t", "auth": PAIR}})])
    assert found == RegistryCredentials({"h.example": {"auth": PAIR, "identitytoken": "t"}})


def test_the_old_form_and_the_order() -> None:
    old = secret({"h.example": {"auth": PAIR}}, ".dockercfg")
    other = secret({"h.example": {"auth": "b3RoZXI6"}})
    found = for_image("h.example/a:1", [old, other, old])
    assert [each.auths["h.example"]["auth"] for each in found] == [PAIR, "b3RoZXI6"]


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"data": {".dockerconfigjson": "%%%"}},
        {"data": {".dockerconfigjson": base64.b64encode(b"[1]").decode()}},
        {"data": {".dockercfg": base64.b64encode(b"[1]").decode()}},
        secret([1]),
        secret({"h.example": 5}),
        secret({"h.example": {}}),
    ],
)
def test_broken_secrets_are_ignored(broken: Object) -> None:
    assert for_image("h.example/a:1", [broken]) == [RegistryCredentials()]
