import pytest

from alcove.api.schema.yaml_text import COPIES_MAX, EVENTS_MAX, YamlError, parse


def value(text: str) -> object:
    return parse(text.encode(), 50).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("~", None),
        ("yes", True),
        ("off", False),
        ("'yes'", "yes"),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("-12", -12),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e999", "1e999"),
        ("08", 8),
        ("0x", "0x"),
        ("12:30:45", "12:30:45"),
        ("2024-05-01", "2024-05-01"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
        ("1.2.3.4", "1.2.3.4"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("18446744073709551616", 18446744073709551616.0),
        ("- ", [None]),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
    ],
)
def test_scalars_resolve_as_in_kubernetes(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_merge_keys_fill_in_under_own_keys() -> None:
    text = (
        "base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\nmany:\n  <<: [*base, {c: 4}]\nquoted: {'<<': 1}"
    )
    assert value(text) == {
        "base": {"a": 1, "b": 2},
        "use": {"a": 1, "b": 3},
        "many": {"a": 1, "b": 2, "c": 4},
        "quoted": {"<<": 1},
    }


def test_aliases_give_copies() -> None:
    found = parse(b"a: &x {list: []}\nb: *x", 50).value
    found["a"]["list"].append(1)
    assert found["b"] == {"list": []}


def test_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(YamlError, match=str(COPIES_MAX)):
        value("\n".join(lines))


def test_aliases_cannot_nest_deeper_than_the_text_may() -> None:
    deep = "[" * 40 + "]" * 40
    assert value(f"a: &a {deep}\nb: *a")
    with pytest.raises(YamlError, match="deeper"):
        value(f"a: &a {deep}\nb: {'[' * 20}*a {']' * 20}")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "a: *nowhere",
        "a: b: c",
        "--- 1\n--- 2",
        "? [a]\n: b",
        "~: a",
        "a: !!binary aGk=",
        "a: !!python/name:os.system x",
        "a: !!int b",
        "<<: 1",
        "\x00",
        "a: 'open",
    ],
)
def test_ambiguous_values_are_refused(text: str) -> None:
    with pytest.raises(YamlError):
        value(text)


def test_text_of_too_many_parts_is_refused() -> None:
    with pytest.raises(YamlError, match="send it as JSON"):
        value("[" + "1," * EVENTS_MAX + "1]")
