"""Custom kinds over all tenants: each tenant's own, so only what all objects have in common is returned."""

from alcove.testing.server import Caller, LocalServer

METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def define(caller: Caller, plural: str, *versions: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].capitalize()},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[0], "schema": schema}
                for name in versions
            ],
        },
    }
    assert caller.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201


def make(caller: Caller, version: str, plural: str, name: str) -> None:
    body = {
        "apiVersion": f"example.com/{version}",
        "kind": plural[:-1].capitalize(),
        "metadata": {"name": name},
        "spec": {"secret": "own"},
    }
    assert caller.post(f"/apis/example.com/{version}/namespaces/default/{plural}", body).status == 201


def test_metadata_of_all_tenants_and_nothing_else(server: LocalServer) -> None:
    first, second = server.make_tenant("custom-a"), server.make_tenant("custom-b")
    define(first, "gadgets", "v1")
    define(second, "gadgets", "v2", "v1")
    make(first, "v1", "gadgets", "one")
    make(second, "v2", "gadgets", "two")
    path = "/apis/example.com/v1/tenants/all/gadgets"
    items = server.system.get(path, accept=METADATA).json["items"]
    assert {(each["metadata"]["tenant"], each["metadata"]["name"]) for each in items} == {
        ("custom-a", "one"),
        ("custom-b", "two"),
    }
    assert all("spec" not in each for each in items)
    refused = server.system.get(path)
    assert refused.status == 406 and "may differ between tenants" in refused.json["message"]
    assert server.system.get("/apis/example.com/v3/tenants/all/gadgets", accept=METADATA).status == 404
    assert first.get(path, accept=METADATA).status == 403
