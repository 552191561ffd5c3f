"""Requests that another site's page may have caused are told from the console's own."""

import pytest

from alcove.console import origins
from alcove.http.messages import HttpRequest

OWN = {"host": "api.example:6443", "x-alcove-console": "1"}


def request(**headers: str) -> HttpRequest:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("POST", "/console/k8s/api", "", given)


def refusal(headers: dict[str, str]) -> str:
    return origins.refusal(HttpRequest("POST", "/console/k8s/api", "", headers), "https")


@pytest.mark.parametrize(
    "more",
    (
        {},
        {"origin": "https://api.example:6443", "sec-fetch-site": "same-origin"},
        {"origin": "https://API.example:6443"},
    ),
)
def test_the_consoles_own_requests_are_allowed(more: dict[str, str]) -> None:
    assert refusal({**OWN, **more}) == ""


@pytest.mark.parametrize(
    "headers",
    (
        {"host": "api.example:6443"},
        {**OWN, "sec-fetch-site": "cross-site"},
        {**OWN, "sec-fetch-site": "same-site"},
        {**OWN, "sec-fetch-site": "none"},
        {**OWN, "origin": "https://evil.example"},
        {**OWN, "origin": "http://api.example:6443"},
        {**OWN, "origin": "https://api.example"},
        {**OWN, "origin": "null"},
        {**OWN, "origin": "https://api.example:6443, https://evil.example"},
    ),
)
def test_requests_that_another_site_may_have_caused_are_refused(headers: dict[str, str]) -> None:
    assert refusal(headers)


def test_a_websocket_needs_the_right_origin_instead_of_the_header() -> None:
    host = {"host": "api.example:6443", "upgrade": "WebSocket"}
    assert refusal({**host, "origin": "https://api.example:6443"}) == ""
    assert refusal(host)
    assert refusal({**host, "origin": "https://evil.example"})


@pytest.mark.parametrize(
    ("header", "value"),
    (
        ("session=a", "a"),
        ("other=b; session=a", "a"),
        ("xsession=b", ""),
        ("session=a; session=b", ""),
        ("session", ""),
        ("", ""),
    ),
)
def test_a_cookie_that_is_there_twice_is_not_trusted(header: str, value: str) -> None:
    assert origins.cookie(request(cookie=header), "session") == value
