import json

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest, TooLarge
from alcove.api.schema.body import NESTING_MAX, VALUES_MAX, parse_json, parse_yaml

TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_json_reads_back_and_has_no_duplicates(value: object, spaced: bool) -> None:
    text = json.dumps(value).encode() if spaced else orjson.dumps(value)
    duplicates: list[str] = []

    assert parse_json(text, duplicates) == value
    assert duplicates == []


class Quoting(yaml.SafeDumper):
    """Quotes every text: Python's rules for what may stand plain are not quite Kubernetes' rules."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@given(VALUES)
def test_yaml_reads_back_what_a_yaml_writer_wrote(value: object) -> None:
    assert parse_yaml(yaml.dump(value, Dumper=Quoting).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    for parse in (parse_json, parse_yaml):
        try:
            parse(text, [])
        except BadRequest:
            pass


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_nesting_is_bounded_exactly(parse: object) -> None:
    assert callable(parse)
    parse(b"[" * NESTING_MAX + b"]" * NESTING_MAX)

    with pytest.raises(BadRequest):
        parse(b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1))
    with pytest.raises(BadRequest):
        parse(b"[" * 100_000)
    with pytest.raises(BadRequest):
        parse(b'{"a":' * 100_000)


def test_brackets_in_strings_are_no_nesting() -> None:
    assert parse_json(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_json_number_beyond_any_float_is_refused() -> None:
    with pytest.raises(BadRequest):
        parse_json(b"9" * 10_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a":1,"a":2}', ["a"]),
        (
            b'{"spec":{"containers":[{"image":"x"},{"image":"y","image":"z","image":"w"}]}}',
            ["spec.containers[1].image"],
        ),
        (b'{"a":{"b":1,"b":1},"a":{"b":1}}', ["a.b", "a"]),
        (b'{"a":1,"\\u0061":2}', ["a"]),
        (b'{"a":%s, "b":1, "b":2}' % (b"9" * 300), ["b"]),
    ],
)
def test_duplicates_in_json_are_reported_by_path(text: bytes, expected: list[str]) -> None:
    duplicates: list[str] = []
    parse_json(text, duplicates)
    assert duplicates == [f'duplicate field "{path}"' for path in expected]


def test_duplicate_hidden_by_a_number_that_grows_is_still_found() -> None:
    """`1e5` is written back as `100000.0`: the lengths alone would be equal here."""
    text = b'{"a":1,"b":1e5,"a":1}'
    duplicates: list[str] = []
    parse_json(text, duplicates)
    assert duplicates == ['duplicate field "a"']


def test_duplicates_in_yaml_are_reported_by_line() -> None:
    duplicates: list[str] = []
    value = parse_yaml(b"spec:\n- x: {b: 1, b: 2}\n  x: 3\n", duplicates)
    assert value == {"spec": [{"x": 3}]}
    assert duplicates == ['line 2: key "b" already set in map', 'line 3: key "x" already set in map']


def test_json_sent_as_yaml_reads_as_json() -> None:
    duplicates: list[str] = []
    assert parse_yaml(b'{"a":[1.5,null,"y"],"a":2}', duplicates) == {"a": 2}
    assert duplicates == ['duplicate field "a"']
    assert parse_yaml(b"{a: yes}") == {"a": True}


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"0," * (VALUES_MAX - 2) + b"0]",
        b'["' + b"{[,]}" * VALUES_MAX + b'"]',
        b'["' + b'\\",' * VALUES_MAX + b'"]',
        b'["' + b"\\\\" * VALUES_MAX + b'",0]',
    ],
)
def test_punctuation_inside_strings_is_no_value(text: bytes) -> None:
    assert parse_json(text)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"0," * VALUES_MAX + b"0]",
        b"[" + b"{}," * (VALUES_MAX // 2) + b"0]",
        b'["a\\\\",' + b"0," * VALUES_MAX + b"0]",
        b'{"a":"' + b"," * VALUES_MAX + b'","b":[' + b"[]," * VALUES_MAX + b"0]}",
    ],
)
def test_more_values_than_can_be_parsed_quickly_are_refused(text: bytes) -> None:
    for parse in (parse_json, parse_yaml) if text.startswith(b"{") else (parse_json,):
        with pytest.raises(TooLarge, match="too many values"):
            parse(text)
