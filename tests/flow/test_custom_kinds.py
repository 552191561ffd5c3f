"""CRDs through a real server: per tenant, served at once, checked, converted, shared, and gone without a trace."""

import json
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer, wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHIPS = "/apis/sea.example/v1/namespaces/default/ships"


def crd(**version: Any) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 10},
            "masts": {"type": "integer", "minimum": 1, "default": 2},
            "crew": {"type": "integer"},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "days": {"type": "integer"}},
                },
            },
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.crew) || self.crew >= self.masts * 2", "message": "two sailors a mast"},
            {"rule": "self.name == oldSelf.name", "message": "a ship keeps its name"},
        ],
    }
    schema = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {
                "type": "object",
                "properties": {"afloat": {"type": "boolean"}, "replicas": {"type": "integer"}},
            },
        },
    }
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Masts", "type": "integer", "jsonPath": ".spec.masts"}],
        **version,
    }
    names = {
        "plural": "ships",
        "singular": "ship",
        "kind": "Ship",
        "shortNames": ["sh"],
        "categories": ["fleet"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.sea.example"},
        "spec": {"group": "sea.example", "scope": "Namespaced", "names": names, "versions": [one]},
    }


def ship(name: str = "argo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sea.example/v1",
        "kind": "Ship",
        "metadata": {"name": name},
        "spec": {"name": name, **spec},
    }


@pytest.fixture
def sea(tenant: Caller) -> Caller:
    answer = tenant.post(CRDS, crd())
    assert answer.status == 201, answer.body
    return tenant


def test_a_crd_is_served_as_soon_as_it_is_written(sea: Caller) -> None:
    conditions = {
        each["type"]: each["status"]
        for each in sea.get(f"{CRDS}/ships.sea.example").json["status"]["conditions"]
    }
    assert conditions["Established"] == "True"
    answer = sea.post(SHIPS, ship())
    assert answer.status == 201, answer.body
    assert answer.json["spec"] == {"name": "argo", "masts": 2}
    assert answer.json["metadata"]["generation"] == 1


def test_defaults_that_come_later_show_in_older_objects(sea: Caller) -> None:
    before = sea.post(SHIPS, ship()).json["metadata"]
    later = crd()
    fields = later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["crew"]["default"] = 7
    assert sea.patch(f"{CRDS}/ships.sea.example", {"spec": later["spec"]}).status == 200
    shown = sea.get(f"{SHIPS}/argo").json
    assert shown["spec"] == {"name": "argo", "masts": 2, "crew": 7}
    assert shown["metadata"]["resourceVersion"] == before["resourceVersion"]
    assert [each["spec"]["crew"] for each in sea.get(SHIPS).json["items"]] == [7]
    assert sea.patch(f"{SHIPS}/argo", {"spec": {"crew": 9}}).json["spec"]["crew"] == 9
    assert sea.get(f"{SHIPS}/argo").json["spec"]["crew"] == 9


def test_another_tenant_has_nothing_of_it(server: LocalServer, sea: Caller) -> None:
    other = server.make_tenant("landlocked")
    assert other.get(SHIPS).status == 404
    assert "sea.example" not in json.dumps(other.get("/apis").json)
    weaker = crd(schema={"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    assert other.post(CRDS, weaker).status == 201
    assert other.post(SHIPS, {**ship(), "anything": 1}).status == 201
    assert sea.get(SHIPS).json["items"] == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"masts": 0}, "spec.masts in body should be greater than or equal to 1"),
        ({"masts": "two"}, "must be of type integer"),
        ({"name": "much-too-long-a-name"}, "spec.name: Too long"),
        ({"crew": 1}, "two sailors a mast"),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    ],
)
def test_values_and_rules_are_checked(sea: Caller, spec: dict[str, Any], message: str) -> None:
    answer = sea.post(SHIPS, ship(**spec))
    assert answer.status == 422 and message in answer.json["message"], answer.body


def test_unknown_fields_are_pruned_or_refused(sea: Caller) -> None:
    strict = sea.post(f"{SHIPS}?fieldValidation=Strict", ship(sails=3))
    assert strict.status == 400 and 'unknown field "spec.sails"' in strict.json["message"]
    warned = sea.post(f"{SHIPS}?fieldValidation=Warn", ship(sails=3))
    assert "sails" not in warned.json["spec"] and "spec.sails" in warned.headers["warning"]


def test_transition_rules_status_and_scale(sea: Caller) -> None:
    made = sea.post(SHIPS, ship(crew=8)).json
    response = sea.patch(f"{SHIPS}/argo", {"spec": {"name": "boat"}})
    assert response.status == 422 and "a ship keeps its name" in response.json["message"]
    assert sea.patch(f"{SHIPS}/argo", {"status": {"afloat": True}}).json.get("status") is None
    afloat = sea.patch(
        f"{SHIPS}/argo/status", {"status": {"afloat": True, "replicas": 3}, "spec": {"masts": 9}}
    ).json
    assert afloat["status"]["afloat"] is True and afloat["spec"]["masts"] == 2
    assert afloat["metadata"]["generation"] == made["metadata"]["generation"]
    scale = sea.get(f"{SHIPS}/argo/scale").json
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (8, 3)
    assert sea.patch(f"{SHIPS}/argo/scale", {"spec": {"replicas": 12}}).status == 200
    assert sea.get(f"{SHIPS}/argo").json["spec"]["crew"] == 12


def test_apply_merges_lists_by_their_keys(sea: Caller) -> None:
    def apply(manager: str, ports: list[dict[str, Any]]) -> Any:
        return sea.patch(
            f"{SHIPS}/argo?fieldManager={manager}&force=true", ship(ports=ports), "apply-patch+yaml"
        )

    assert apply("a", [{"name": "x", "days": 1}]).status == 201
    both = apply("b", [{"name": "y", "days": 2}]).json["spec"]["ports"]
    assert both == [{"name": "x", "days": 1}, {"name": "y", "days": 2}]
    assert apply("a", []).json["spec"]["ports"] == [{"name": "y", "days": 2}]
    assert sea.patch(f"{SHIPS}/argo", {}, "strategic-merge-patch+json").status == 415


def test_kubectl_knows_it(sea: Caller) -> None:
    sea.kubectl("apply", "-f", "-", stdin=json.dumps(ship(masts=3)))
    table = sea.kubectl("get", "sh")
    assert "MASTS" in table and "argo" in table and "3" in table
    assert "masts" in sea.kubectl("explain", "ship.spec")
    assert "APIVersion defines" in sea.kubectl("explain", "ship")
    assert "Standard object's metadata" in sea.kubectl("explain", "ship.metadata")
    assert "argo" in sea.kubectl("get", "fleet", "-o", "name")
    sea.kubectl("label", "ship", "argo", "a=b")
    sea.kubectl("delete", "ship", "argo")


def test_a_second_version_by_relabelling(sea: Caller) -> None:
    found = sea.get(f"{CRDS}/ships.sea.example").json
    sea.post(SHIPS, ship())
    first = found["spec"]["versions"][0]
    second = {**first, "name": "v2", "storage": True}
    found["spec"]["versions"] = [{**first, "storage": False, "deprecated": True}, second]
    answer = sea.put(f"{CRDS}/ships.sea.example", found)
    assert answer.status == 200, answer.body
    assert answer.json["status"]["storedVersions"] == ["v1", "v2"]
    v2 = SHIPS.replace("/v1/", "/v2/")
    assert sea.get(f"{v2}/argo").json["apiVersion"] == "sea.example/v2"
    old = sea.get(f"{SHIPS}/argo")
    assert old.json["apiVersion"] == "sea.example/v1" and "deprecated" in old.headers["warning"]
    changed = sea.patch(f"{v2}/argo", {"spec": {"masts": 4}})
    assert changed.status == 200 and sea.get(f"{SHIPS}/argo").json["spec"]["masts"] == 4
    body = sea.get(f"{v2}?watch=true&timeoutSeconds=1").body
    assert json.loads(body.splitlines()[0])["object"]["apiVersion"] == "sea.example/v2"


def test_removing_a_crd_removes_its_objects(sea: Caller) -> None:
    sea.post(SHIPS, ship("one"))
    sea.post(SHIPS, {**ship("two"), "metadata": {"name": "two", "finalizers": ["example.com/anchor"]}})
    assert sea.delete(f"{CRDS}/ships.sea.example").status == 200
    wait_until(lambda: sea.get(f"{SHIPS}/one").status == 404)
    assert sea.get(f"{CRDS}/ships.sea.example").json["metadata"]["deletionTimestamp"]
    assert sea.post(SHIPS, ship("three")).status == 405
    assert sea.patch(f"{SHIPS}/two", {"metadata": {"finalizers": None}}).status == 200
    wait_until(lambda: sea.get(f"{CRDS}/ships.sea.example").status == 404)
    assert sea.get(SHIPS).status == 404
    assert "sea.example" not in json.dumps(sea.get("/apis").json)


def test_a_forced_crd_is_everybodys_and_only_ring0_changes_it(server: LocalServer, tenant: Caller) -> None:
    shared = crd()
    shared["metadata"] = {
        "name": "ships.sea.example",
        "labels": {"arktos.futurewei.com/crd-sharing-policy": "forced"},
    }
    assert server.system.post(CRDS, shared).status == 201
    try:
        assert tenant.post(SHIPS, ship()).status == 201
        assert [each["metadata"]["name"] for each in tenant.get(CRDS).json["items"]] == ["ships.sea.example"]
        assert server.system.get(SHIPS).json["items"] == []
        for answer in (
            tenant.post(CRDS, crd()),
            tenant.patch(f"{CRDS}/ships.sea.example", {"metadata": {"labels": {"a": "b"}}}),
            tenant.delete(f"{CRDS}/ships.sea.example"),
        ):
            assert answer.status == 403 and "is a system CRD" in answer.json["message"]
        assert "is a system CRD, you cannot overwrite it" in tenant.post(CRDS, crd()).json["message"]
    finally:
        server.system.delete(f"{CRDS}/ships.sea.example")
        wait_until(lambda: server.system.get(f"{CRDS}/ships.sea.example").status == 404)
    assert tenant.get(SHIPS).status == 404


def test_a_tenants_watch_of_crds_reports_what_its_list_shows(server: LocalServer, tenant: Caller) -> None:
    since = tenant.get(CRDS).json["metadata"]["resourceVersion"]
    shared = crd()
    shared["metadata"]["labels"] = {"arktos.futurewei.com/crd-sharing-policy": "forced"}
    assert server.system.post(CRDS, shared).status == 201
    try:
        [listed] = tenant.get(CRDS).json["items"]
        first, *_ = tenant.get(
            f"{CRDS}?watch=true&resourceVersion={since}&timeoutSeconds=1"
        ).body.splitlines()
        assert json.loads(first) == {"type": "ADDED", "object": listed}
    finally:
        server.system.delete(f"{CRDS}/ships.sea.example")
        wait_until(lambda: server.system.get(f"{CRDS}/ships.sea.example").status == 404)
    lines = tenant.get(f"{CRDS}?watch=true&resourceVersion={since}&timeoutSeconds=1").body.splitlines()
    types = [json.loads(line)["type"] for line in lines]
    assert (types[0], types[-1]) == ("ADDED", "DELETED") and tenant.get(CRDS).json["items"] == []


def test_schemas_that_are_not_structural_are_refused(tenant: Caller) -> None:
    wrong = crd(
        schema={
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"properties": {"a": {"type": "string"}}}},
            }
        }
    )
    answer = tenant.post(CRDS, wrong)
    assert answer.status == 422 and "type: Required value" in answer.json["message"]
    rule = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.nonsense("}]}},
    }
    answer = tenant.post(CRDS, crd(schema={"openAPIV3Schema": rule}))
    assert answer.status == 422 and "rule" in answer.json["message"]


def test_openapi_is_not_sent_to_a_client_that_has_it(tenant: Caller) -> None:
    """Until a kind is added: it has megabytes, and clients that wait for a kind ask several times a second."""
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    cases = [("/openapi/v2", "*/*"), ("/openapi/v2", protobuf), ("/openapi/v3/apis/apps/v1", "*/*")]
    tags = [tenant.get(path, accept=accept).headers["etag"] for path, accept in cases]
    for (path, accept), tag in zip(cases, tags, strict=True):
        answer = tenant.get(path, accept=accept, if_none_match=tag)
        assert answer.status == 304 and not answer.body and answer.headers["etag"] == tag
    assert len(set(tags)) == 3, "JSON is not protobuf"
    assert tenant.post(CRDS, crd()).status == 201
    answer = tenant.get("/openapi/v2", if_none_match=tags[0])
    assert answer.status == 200 and "example.sea.v1.Ship" in answer.json["definitions"]


@pytest.mark.parametrize("schema", [{"x-kubernetes-preserve-unknown-fields": True}, {}])
def test_kubectl_refuses_no_field_of_a_kind_that_keeps_unknown_ones(
    tenant: Caller, schema: dict[str, Any]
) -> None:
    """In lists of several kinds it validates by the v2 schema, where properties exclude all others."""
    made = crd(schema={"openAPIV3Schema": {"type": "object", **schema}})
    assert tenant.post(CRDS, made).status == 201
    shown = tenant.get("/openapi/v2").json["definitions"]["example.sea.v1.Ship"]
    assert ("properties" in shown) is not bool(schema)
    assert shown["x-kubernetes-group-version-kind"] == [
        {"group": "sea.example", "version": "v1", "kind": "Ship"}
    ]
