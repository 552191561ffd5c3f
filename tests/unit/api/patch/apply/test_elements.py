"""Path elements: their canonical text, their order, and their form in messages."""

import pytest

from alcove.api.patch.apply import elements


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("f:spec", "f:spec"),
        ("f:a b: c", "f:a b: c"),
        ("f:", "f:"),
        ('k:{"name":"a"}', 'k:{"name":"a"}'),
        ('k:{ "protocol": "TCP", "containerPort": 80 }', 'k:{"containerPort":80,"protocol":"TCP"}'),
        ('k:{"name":"a\\u003cb"}', 'k:{"name":"a<b"}'),
        ('v:"x"', 'v:"x"'),
        ("v: 1.50", "v:1.5"),
        ("v:true", "v:true"),
        ("v:null", "v:null"),
        ("i:007", "i:7"),
        ("z:from the future", None),
    ],
)
def test_parsing(text: str, canonical: str | None) -> None:
    assert elements.parse(text) == canonical


@pytest.mark.parametrize(
    "text", ["", "f", "spec", "k:", "k:[]", 'k:{"a":1} x', "v:", "v:{", "v:1 2", "i:", "i:x"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(ValueError):
        elements.parse(text)


def test_order_is_fields_keys_values_indexes_and_numbers_count_as_numbers() -> None:
    ordered = [
        ".",
        "f:A",
        "f:a",
        "f:b",
        'k:{"a":2}',
        'k:{"a":10}',
        'k:{"a":10,"b":"x"}',
        'k:{"a":"1"}',
        'k:{"b":1}',
        "v:-1",
        "v:1.5",
        "v:2",
        'v:"a"',
        'v:"a!"',
        'v:"b"',
        "v:false",
        "v:true",
        "v:null",
        "i:2",
        "i:10",
    ]
    mixed = [*ordered[7:], *ordered[:7]]
    assert sorted(mixed, key=elements.order) == ordered


def test_paths_as_in_messages() -> None:
    path = (
        "f:spec",
        "f:containers",
        'k:{"name":"app"}',
        "f:ports",
        'k:{"containerPort":80,"protocol":"TCP"}',
    )
    assert elements.shown(path) == '.spec.containers[name="app"].ports[containerPort=80,protocol="TCP"]'
    assert elements.shown(("f:metadata", "f:finalizers", 'v:"x/y"')) == '.metadata.finalizers[="x/y"]'
    assert elements.shown(("f:a", "i:3")) == ".a[3]"
