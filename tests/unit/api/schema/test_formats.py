"""String formats, by example; none is slow on hostile text."""

import time

import pytest

from alcove.api.schema.formats import STRING_FORMATS, string_format

GOOD = {
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "byte": ["aGVsbG8=", "AAAA"],
    "cidr": ["10.0.0.0/8", "::1/128"],
    "creditcard": ["4111 1111 1111 1111"],
    "date": ["2020-02-29"],
    "date-time": ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
    "duration": ["22ns", "1h30m", "-1.5s", "0", "22 ns", "3 days", "2 weeks"],
    "email": ["a@b.c", "Bob <bob@example.com>"],
    "hexcolor": ["#FFFFFF", "fff"],
    "hostname": ["example.com", "localhost", "xn--bcher-kva.example", "a-b.example"],
    "ipv4": ["1.2.3.4", "010.0.0.1"],
    "ipv6": ["::1", "fe80::1:2"],
    "isbn": ["0321751043", "978-0321751041"],
    "isbn10": ["0321751043"],
    "isbn13": ["978-0321751041"],
    "k8s-short-name": ["my-name"],
    "k8s-long-name": ["my.long.name"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab"],
    "rgbcolor": ["rgb(255,255,255)"],
    "ssn": ["111-11-1111"],
    "uri": ["https://example.com/a?b#c", "/path"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-a456-426614174000"],
}
BAD = {
    "bsonobjectid": ["507f1f77"],
    "byte": ["", "a", "!!!!"],
    "cidr": ["10.0.0.0", "10.0.0.0/33", "x/8"],
    "creditcard": ["4111 1111 1111 1112"],
    "date": ["2020-13-01", "2020-1-1", ""],
    "date-time": ["2014-12-15", "2014-12-15T25:30:20Z", "x"],
    "duration": ["", "fast", "3 parsecs"],
    "email": ["a", "a@", "@b"],
    "hexcolor": ["#FFFF"],
    "hostname": ["-a.com", "a..b", "a_b.com", "a." + "b" * 64],
    "ipv4": ["1.2.3", "::1", "1.2.3.4.5"],
    "ipv6": ["1.2.3.4", ":::", "fe80::1%eth0"],
    "isbn10": ["0321751042"],
    "isbn13": ["978-0321751042"],
    "k8s-short-name": ["My", "a.b", "a" * 64],
    "k8s-long-name": ["My.name", ""],
    "mac": ["01:23:45:67:89", "01:23-45:67:89:ab"],
    "rgbcolor": ["rgb(256,0,0)"],
    "ssn": ["11-11-1111"],
    "uri": ["", "relative", "http://[::1", "http://a b/"],
    "uuid": ["x", "123e4567-e89b-12d3-a456-42661417400"],
    "uuid4": ["123e4567-e89b-32d3-a456-426614174000"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_valid(name: str, text: str) -> None:
    check = string_format(name)
    assert check is not None
    assert check(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_invalid(name: str, text: str) -> None:
    check = string_format(name)
    assert check is not None
    assert not check(text)


def test_unknown_formats_are_not_checked() -> None:
    assert string_format("password") is None
    assert string_format("unheard-of") is None


@pytest.mark.parametrize("name", sorted(STRING_FORMATS))
def test_hostile_texts_take_linear_time(name: str) -> None:
    started = time.process_time()
    for text in (
        "a" * 200_000,
        "1" * 200_000,
        "a-" * 100_000,
        "1." * 100_000,
        "<@" * 100_000,
        "1 d" * 60_000,
        "%" * 200_000,
    ):
        STRING_FORMATS[name](text)
    assert time.process_time() - started < 20
