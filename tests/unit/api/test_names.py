"""Names, values and keys, with the messages of Kubernetes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LONG_63 = "must be no more than 63 characters"
LONG_63_BYTES = "must be no more than 63 bytes"
LONG_253 = "must be no more than 253 characters"


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a", []),
        ("0-a9", []),
        ("a" * 63, []),
        ("a" * 64, [LONG_63]),
        ("", [LABEL]),
        ("-a", [LABEL]),
        ("a-", [LABEL]),
        ("A", [LABEL]),
        ("a_b", [LABEL]),
        ("a\n", [LABEL]),
        ("ä", [LABEL]),
        ("a.b", ["must not contain dots"]),
        ("a." * 40 + "b", [LONG_63, "must not contain dots"]),
        ("ä" * 40, [LONG_63, LABEL]),
    ],
)
def test_dns_label(value: str, messages: list[str]) -> None:
    assert list(names.dns_label(value)) == messages


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a.b-c.9", []),
        ("a" * 253, []),
        ("a" * 254, [LONG_253]),
        ("a..b", [SUBDOMAIN]),
        (".a", [SUBDOMAIN]),
        ("a.-b", [SUBDOMAIN]),
        ("", [SUBDOMAIN]),
        ("A" * 254, [LONG_253, SUBDOMAIN]),
    ],
)
def test_dns_subdomain(value: str, messages: list[str]) -> None:
    assert list(names.dns_subdomain(value)) == messages


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("app", []),
        ("App_1.x", []),
        ("example.com/App", []),
        ("", ["name part must be non-empty", f"name part {KEY_NAME}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", f"name part {KEY_NAME}"]),
        ("A.com/a", [f"prefix part {SUBDOMAIN}"]),
        ("a/b/c", [
            f"a valid label key {KEY_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]),
        ("x" * 64, [f"name part {LONG_63_BYTES}"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
        ("a b", [f"name part {KEY_NAME}"]),
    ],
)  # fmt: skip
def test_label_key(value: str, messages: list[str]) -> None:
    assert list(names.label_key(value)) == messages
    assert list(names.label_key(value)) == messages, "the second time from the cache"


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("", []),
        ("a_B.9-x", []),
        ("x" * 63, []),
        ("x" * 64, [LONG_63_BYTES]),
        ("-x", [LABEL_VALUE]),
        ("a b", [LABEL_VALUE]),
        ("a/b", [LABEL_VALUE]),
    ],
)
def test_label_value(value: str, messages: list[str]) -> None:
    assert list(names.label_value(value)) == messages


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("http", []),
        ("a-1", []),
        ("1a", []),
        ("exactly-15-char", []),
        ("sixteen-charsxxx", ["must be no more than 15 characters"]),
        ("80", ["must contain at least one letter (a-z)"]),
        ("HTTP", [
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        ("a-", ["must not begin or end with a hyphen"]),
        ("", [
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ]),
    ],
)  # fmt: skip
def test_port_name(value: str, messages: list[str]) -> None:
    assert list(names.port_name(value)) == messages


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_1035_label, ["a", "a-1"], ["1a", "A", "a.b", ""]),
        (names.wildcard_subdomain, ["*.a.b"], ["a.b", "*", "*.", "*.*.a"]),
        (names.dns_subdomain_underscored, ["_a.b", "a_b"], ["-a", "A", "a_"]),
        (names.c_identifier, ["_a1"], ["1a", "a-b", ""]),
        (names.percent, ["5%", "100%"], ["%", "5", "-5%", "5%%"]),
        (names.http_header_name, ["X-A"], ["", "a b", "a:"]),
        (names.relaxed_env_name, ["1 a!", "a"], ["", "a=b", "ä", "a\n"]),
        (names.config_key, ["a", ".a", "a..b", "-"], ["", ".", "..", "..a", "a/b", "x" * 254]),
        (names.condition_reason, ["A", "a:b,c_"], ["", "1a", "a:", "a b"]),
        (names.path_segment, ["a", "...", ""], [".", "..", "a/b", "a%2f"]),
        (names.http_path, ["a/b-c~%!$&'()*+,;=:"], ["", "a b", "a?b"]),
    ],
)
def test_other_formats(check: names.Check, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if check(value)] == []
    assert [value for value in bad if not check(value)] == []


def test_a_prefix_may_end_in_a_dash() -> None:
    assert not names.name_is_dns_subdomain("web-", True)
    assert names.name_is_dns_subdomain("web-", False)
    assert not names.name_is_dns_label("a-", True)
    assert not names.name_is_dns_1035_label("a-", True)
    assert names.name_is_dns_label("-", True)
    assert list(names.name_is_path_segment("..", True)) == []
    assert list(names.name_is_path_segment("..", False)) == ["may not be '..'"]


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
def test_a_label_is_a_subdomain_a_label_value_and_a_key(value: str) -> None:
    assert not names.dns_label(value)
    assert not names.dns_subdomain(value)
    assert not names.label_value(value)
    assert not names.label_key(value)


@given(st.text(max_size=80))
def test_checks_take_any_text(value: str) -> None:
    for check in (names.dns_label, names.label_key, names.port_name, names.config_key):
        assert all(isinstance(message, str) and message for message in check(value))


def test_long_hostile_values_are_checked_in_linear_time() -> None:
    for value in ("a" * 2_000_000 + "!", "a." * 1_000_000 + "!", "a-" * 1_000_000):
        assert names.dns_subdomain(value)
        assert names.label_key(value)
        assert names.label_value(value)
