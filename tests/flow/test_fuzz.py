"""Random requests against our own OpenAPI: whatever is sent, the answer is a Status or what was asked for.

A 5xx, a broken connection or a body that is not JSON is a bug.
"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alcove.testing.server import Caller, LocalServer

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
METHODS = {"get": "GET", "post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE"}
PATCHES = ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]


@pytest.fixture(scope="module")
def target(server: LocalServer) -> Caller:
    return server.make_tenant("fuzzed")


@pytest.fixture(scope="module")
def operations(target: Caller) -> list[tuple[str, str, Any]]:
    """Every (path, method, schema of the body) that we say we serve."""
    found: list[tuple[str, str, Any]] = []
    for group in (
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/networking.k8s.io/v1",
        "apis/rbac.authorization.k8s.io/v1",
    ):
        document = target.get(f"/openapi/v3/{group}").json
        schemas = document["components"]["schemas"]
        for path, item in document["paths"].items():
            found += [
                (path, method, schemas)
                for method in METHODS
                if method in item and not path.endswith("/namespaces/{name}")
            ]
    return found


def some_object(draw: st.DrawFn, schemas: Any, schema: Any, depth: int) -> Any:
    """A value that often, not always, fits its schema."""
    if depth > 5 or draw(st.integers(0, 11)) == 0:
        return draw(json_values)
    if "allOf" in schema:
        return some_object(draw, schemas, schema["allOf"][0], depth)
    if "$ref" in schema:
        return some_object(draw, schemas, schemas[schema["$ref"].rpartition("/")[2]], depth + 1)
    match schema.get("type"):
        case "object" if "properties" in schema:
            properties = schema["properties"]
            wanted = draw(st.sets(st.sampled_from(sorted(properties)), max_size=4)) | set(
                schema.get("required", ())
            )
            return {name: some_object(draw, schemas, properties[name], depth + 1) for name in sorted(wanted)}
        case "array":
            return [
                some_object(draw, schemas, schema["items"], depth + 1) for _ in range(draw(st.integers(0, 2)))
            ]
        case "string":
            return draw(
                st.sampled_from(
                    ["a", "default", "", "10.0.0.0/8", "TCP", "100m", "A b", "2024-01-01T00:00:00Z"]
                )
            )
        case "integer":
            return draw(st.integers(-3, 70000))
        case "boolean":
            return draw(st.booleans())
    return draw(json_values)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_is_one_a_client_understands(
    target: Caller, operations: list[tuple[str, str, Any]], data: st.DataObject
) -> None:
    # By its number: a failure that printed the schemas too would take minutes to print.
    path, method, schemas = operations[data.draw(st.integers(0, len(operations) - 1))]
    path = path.replace("{namespace}", "default").replace(
        "{name}", data.draw(st.sampled_from(["a", "b", "c"]))
    )
    query = data.draw(
        st.sampled_from(
            ["", "?dryRun=All", "?fieldManager=f&force=true", "?limit=1", "?fieldValidation=Strict"]
        )
    )
    headers: dict[str, str] = {}
    body: bytes | None = None
    if method in ("post", "put", "patch"):
        kind = data.draw(st.sampled_from(sorted(schemas)))
        value = data.draw(st.composite(lambda draw: some_object(draw, schemas, schemas[kind], 0))())
        if isinstance(value, dict) and data.draw(st.booleans()):
            value["metadata"] = {"name": data.draw(st.sampled_from(["a", "b", "c"]))}
        body = json.dumps(value).encode()
        if method == "patch":
            headers["content_type"] = f"application/{data.draw(st.sampled_from(PATCHES))}"
    answer = target.request(METHODS[method], path + query, body, **headers)
    expected = 503 if path.rpartition("/")[2] in ("exec", "log", "attach", "portforward", "proxy") else 500
    assert answer.status < expected or answer.status == expected == 503, (
        method,
        path,
        query,
        body,
        answer.body,
    )
    if answer.status == 301:
        # As in Kubernetes: links of what is proxied are relative to a folder.
        assert path.endswith("/proxy") and answer.headers["location"].startswith("proxy/")
    else:
        assert isinstance(answer.json, dict) and answer.json["kind"]
