"""Selectors: what they match, what they refuse, and that their text form loses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.selectors import Operator, Requirement

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

MATCHES = [
    ("", {}, True),
    ("a=b", {"a": "b"}, True),
    ("a=b", {"a": "c"}, False),
    ("a=b", {}, False),
    ("a==b", {"a": "b"}, True),
    ("a=", {"a": ""}, True),
    ("a=", {}, False),
    ("a!=b", {}, True),
    ("a!=b", {"a": "b"}, False),
    ("a", {"a": ""}, True),
    ("a", {"b": ""}, False),
    ("!a", {"b": ""}, True),
    ("! a", {"a": ""}, False),
    ("a in (x,y)", {"a": "y"}, True),
    ("a in (x,y)", {"a": "z"}, False),
    ("a in (x,y)", {}, False),
    ("a in ()", {"a": ""}, True),
    ("a in (x,)", {"a": ""}, True),
    ("a in (,x)", {"a": ""}, True),
    ("a in (x,,y)", {"a": ""}, True),
    ("a notin (x)", {}, True),
    ("a notin (x,y)", {"a": "x"}, False),
    ("in in (in,notin)", {"in": "notin"}, True),
    ("a>3", {"a": "4"}, True),
    ("a>3", {"a": "3"}, False),
    ("a<3", {"a": "2"}, True),
    ("a<3", {"a": "two"}, False),
    ("a<3", {"a": "9223372036854775808"}, False),
    ("a<3", {}, False),
    ("a=b,c!=d,e", {"a": "b", "e": "1"}, True),
    ("a=b,c!=d,e", {"a": "b", "c": "d", "e": "1"}, False),
    (" a = b , c ", {"a": "b", "c": ""}, True),
    ("example.com/a=b", {"example.com/a": "b"}, True),
]


@pytest.mark.parametrize(("text", "labels", "expected"), MATCHES)
def test_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    assert selectors.parse(text).matches(labels) is expected


REFUSED = [
    ("a=b,", "found '', expected: identifier after ','"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    (",a", "found ',', expected: !, identifier, or 'end of string'"),
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("!", "unable to parse requirement: found '', expected: identifier"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a(b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in", "unable to parse requirement: found '' expected: '('"),
    ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
    ("a in (b=", "unable to parse requirement: found '=', expected: ',' or ')'"),
    ("a==(b)", "unable to parse requirement: found '(', expected: identifier"),
    ("a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": {NAME_RULE}'),
    ("a=b?", f'unable to parse requirement: values[0][a]: Invalid value: "b?": {VALUE_RULE}'),
    ("!a=b", "found '=', expected: ',' or 'end of string'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_invalid_selectors_have_the_message_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selectors.parse(text)
    assert refused.value.message == message


def test_from_object() -> None:
    selector = selectors.from_object(
        {
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "c", "operator": "NotIn", "values": ["z"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(selector) == "a in (x,y),b=1,c notin (z),d,!e"
    assert selector.as_equality() == (("b", "1"),)
    assert selector.matches({"a": "x", "b": "1", "d": ""})
    assert not selector.matches({"a": "x", "b": "1", "d": "", "e": ""})


def test_missing_selects_nothing_and_empty_selects_everything() -> None:
    assert not selectors.from_object(None).matches({})
    assert not selectors.from_object(None).is_everything
    assert selectors.from_object({}).matches({})
    assert selectors.from_object({}).is_everything
    assert selectors.from_object({}) == selectors.parse("") != selectors.from_object(None)


def test_from_object_refuses_what_is_no_selector() -> None:
    with pytest.raises(BadRequest, match='"Gt" is not a valid label selector operator'):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})
    with pytest.raises(BadRequest, match="values set can't be empty"):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "In"}]})
    with pytest.raises(BadRequest, match="values set must be empty"):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]})


def test_only_exact_requirements_count_as_equality() -> None:
    selector = selectors.parse("a=1,b==2,c in (3),d in (4,5),e!=6,f,!g,h>1")
    assert selector.as_equality() == (("a", "1"), ("b", "2"), ("c", "3"))
    assert selectors.from_labels({"b": "2", "a": "1"}).as_equality() == (("a", "1"), ("b", "2"))


WORDS = st.from_regex(r"[a-z0-9]([-a-z0-9_.]{0,6}[a-z0-9])?", fullmatch=True)
KEYS = st.sampled_from(["a", "b", "c", "in", "x.io/d"])
VALUES = st.sampled_from(["", "x", "y", "notin", "1", "2", "30"])
SETS = st.lists(VALUES, min_size=1, max_size=3, unique=True).map(lambda values: tuple(sorted(values)))
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), SETS),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        st.tuples(VALUES | WORDS),
    ),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]), st.just(())),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.GREATER, Operator.LESS]),
        st.tuples(st.integers(0, 2**63 - 1).map(str)),
    ),
)
LABELS = st.dictionaries(KEYS, VALUES)


def meets(required: Requirement, labels: dict[str, str]) -> bool:
    """The law, written as plainly as possible."""
    value = labels.get(required.key)
    match required.operator:
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            return value is not None and value in required.values
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            return value is None or value not in required.values
        case Operator.GREATER:
            return value is not None and value.isdigit() and int(value) > int(required.values[0])
        case Operator.LESS:
            return value is not None and value.isdigit() and int(value) < int(required.values[0])


@given(st.lists(REQUIREMENTS, max_size=5), LABELS)
def test_matches_as_the_requirements_say(required: list[Requirement], labels: dict[str, str]) -> None:
    selector = selectors.LabelSelector(required)
    assert selector.matches(labels) == all(meets(each, labels) for each in required)
    if selector.matches(labels):
        assert dict(selector.as_equality()).items() <= labels.items()


@given(st.lists(REQUIREMENTS, max_size=5))
def test_text_form_parses_back(required: list[Requirement]) -> None:
    selector = selectors.LabelSelector(required)
    assert selectors.parse(str(selector)) == selector
    assert hash(selectors.parse(str(selector))) == hash(selector)


@given(st.text(alphabet=st.sampled_from("ab!=<>(), \tin/.-é"), max_size=30) | st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        selector = selectors.parse(text)
    except BadRequest:
        return
    assert selectors.parse(str(selector)) == selector


FIELD_MATCHES = [
    ("", {}, True),
    ("a=b", {"a": "b"}, True),
    ("a==b", {"a": "b"}, True),
    ("a=b", {}, False),
    ("a=", {}, True),
    ("a!=b", {}, True),
    ("a!=", {"a": ""}, False),
    ("a=b,c=d", {"a": "b", "c": "d"}, True),
    ("a=b,c=d", {"a": "b", "c": "e"}, False),
    (",a=b,,", {"a": "b"}, True),
    (r"a=b\,c", {"a": "b,c"}, True),
    (r"a=b\=c\\", {"a": "b=c\\"}, True),
    ("spec.a.b!=c", {"spec.a.b": "c"}, False),
]


@pytest.mark.parametrize(("text", "values", "expected"), FIELD_MATCHES)
def test_field_matches(text: str, values: dict[str, str], expected: bool) -> None:
    assert selectors.parse_fields(text).matches(lambda field: values.get(field, "")) is expected


FIELD_REFUSED = [
    ("a", "invalid selector: 'a'; can't understand 'a'"),
    ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
    ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
    ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
]


@pytest.mark.parametrize(("text", "message"), FIELD_REFUSED)
def test_invalid_field_selectors_have_the_message_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selectors.parse_fields(text)
    assert refused.value.message == message


def test_field_selector_lists_its_fields_and_exact_values() -> None:
    selector = selectors.parse_fields("metadata.name=web,spec.nodeName!=n1,metadata.name!=x")
    assert selector.fields == ("metadata.name", "spec.nodeName")
    assert selector.exact("metadata.name") == "web"
    assert selector.exact("spec.nodeName") is None
    assert selectors.parse_fields("").is_everything


@given(
    st.lists(
        st.builds(
            selectors.FieldTerm, st.sampled_from(["a", "b.c", "d"]), st.text(max_size=8), st.booleans()
        ),
        max_size=4,
    )
)
def test_field_text_form_parses_back(terms: list[selectors.FieldTerm]) -> None:
    parsed = selectors.parse_fields(str(selectors.FieldSelector(terms)))
    assert sorted(map(str, parsed.terms)) == sorted(map(str, terms))


@given(st.text(alphabet=st.sampled_from("ab!=,\\ "), max_size=20) | st.text(max_size=20))
def test_any_field_text_is_parsed_or_refused(text: str) -> None:
    try:
        selector = selectors.parse_fields(text)
    except BadRequest:
        return
    assert selectors.parse_fields(str(selector)) == selector
