"""How webhooks may be called."""

import base64

import pytest

from alcove.api.kinds.webhookclients import default_client, validate_ca_bundle, validate_client
from alcove.api.objects import Object

FORM = "; desired format: https://host[/path]"
SERVICE = {"namespace": "n", "name": "s", "port": 443}
CASES: list[tuple[Object, list[str]]] = [
    ({"url": "https://example.com/validate"}, []),
    ({"url": "https://[2001:db8::1]:8443/validate"}, []),
    ({"service": SERVICE}, []),
    ({"service": {**SERVICE, "path": "/a/b.c/"}}, []),
    ({"service": {**SERVICE, "path": "/"}}, []),
    ({}, ["c: Required value: exactly one of url or service is required"]),
    ({"url": "https://a.io", "service": SERVICE}, ["c: Required value: exactly one of url or service is required"]),
    ({"url": "http://a.io"}, [f"c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}"]),
    ({"url": "https:///a"}, [f'c.url: Invalid value: "": host must be specified{FORM}']),
    ({"url": "https://u:p@a.io/?q=1#f"}, [
        'c.url: Invalid value: "u:p": user information is not permitted in the URL',
        'c.url: Invalid value: "f": fragments are not permitted in the URL',
        'c.url: Invalid value: "q=1": query parameters are not permitted in the URL']),
    ({"service": {"port": 0}}, [
        "c.service.name: Required value",
        "c.service.namespace: Required value",
        "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"]),
    ({"service": {**SERVICE, "path": "//"}}, ['c.service.path: Invalid value: "//": segment[0] may not be empty']),
    ({"service": {**SERVICE, "path": "/a//b"}}, [
        'c.service.path: Invalid value: "/a//b": segment[1] may not be empty']),
    ({"service": {**SERVICE, "path": "xa"}}, ["c.service.path: Invalid value: \"xa\": must start with a '/'"]),
]  # fmt: skip


@pytest.mark.parametrize(("client", "expected"), CASES)
def test_client(client: Object, expected: list[str]) -> None:
    assert [str(error) for error in validate_client(client, "c")] == expected


@pytest.mark.parametrize("url", ["https://a.io:port/", "https://[::1/", "https://a.io:99999/"])
def test_what_is_no_url(url: str) -> None:
    [error] = validate_client({"url": url}, "c")
    assert str(error).startswith("c.url: Required value: url must be a valid URL: ")


def test_port_is_https() -> None:
    client: Object = {"service": {"namespace": "n", "name": "s"}}
    default_client(client)
    assert client["service"]["port"] == 443


def test_ca_bundle_holds_certificates() -> None:
    for bundle in ("%", base64.b64encode(b"no certificate").decode()):
        [error] = validate_ca_bundle(bundle, "c.caBundle")
        assert error.body.endswith("unable to load root certificates: unable to parse bytes as PEM block")
