"""JSONPath of printer columns."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.jsonpath import VALUES_MAX, JsonPathError, compile_path

OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "dotted"}, "name": "web"},
    "spec": {
        "replicas": 3,
        "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "udp": True}],
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Synced", "status": "False", "reason": "Waiting"},
        ],
        "matrix": [[1, 2], [3]],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        ("spec.replicas", [3]),
        (".", [OBJECT]),
        (".spec['replicas']", [3]),
        (".metadata.annotations.a\\.b/c", ["dotted"]),
        (".metadata.annotations['a\\.b/c']", ["dotted"]),
        (".missing.deeper", []),
        (".spec.ports[0].port", [80]),
        (".spec.ports[-1].name", ["dns"]),
        (".spec.ports[9]", []),
        (".spec.ports[*].port", [80, 53]),
        (".spec.ports[0:1].name", ["http"]),
        (".spec.ports[0,1].name", ["http", "dns"]),
        (".metadata['name','missing']", ["web"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Synced')].reason", ["Waiting"]),
        (".status.conditions[?(@.type != 'Ready')].type", ["Synced"]),
        (".status.conditions[?(@.reason)].type", ["Synced"]),
        (".spec.ports[?(@.port > 60)].name", ["http"]),
        (".spec.ports[?(@.udp == true)].name", ["dns"]),
        (".spec.ports[?(@.udp == 1)].name", []),
        (".spec.ports[?(@.name < 5)].name", []),
        ("..port", [80, 53]),
        (".status.matrix[*][0]", [1, 3]),
        (".spec.*", [3, OBJECT["spec"]["ports"]]),
    ],
)
def test_finds(path: str, found: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == found


@pytest.mark.parametrize(
    "path", [".a[", ".a[]", ".a[?(@.b", ".a[?(@.b==)]", ".a b", ".a[x]", ".a[0:1:0]", ".a['b", "x" * 5_000]
)
def test_refuses(path: str) -> None:
    with pytest.raises(JsonPathError):
        compile_path(path)


@given(st.text(alphabet=".[]()?@*'\"ab01:,=<>!\\ -", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        find = compile_path(text)
    except JsonPathError:
        return
    find(OBJECT)


def test_results_are_bounded() -> None:
    wide = {"a": [[0] * 300 for _ in range(300)]}
    started = time.process_time()
    assert len(compile_path(".a[*][*]")(wide)) == VALUES_MAX
    compile_path("..*" * 50)({"a": wide})
    assert time.process_time() - started < 40
