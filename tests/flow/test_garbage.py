"""Owners and dependents: background, foreground, orphan, and references that are never followed."""

from itertools import count
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer, wait_until

_NUMBERS = count()
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def acme(control_plane: LocalServer) -> Caller:
    return tenant(control_plane, "garbage")


def tenant(server: LocalServer, name: str) -> Caller:
    server.system.post("/api/v1/tenants", {"metadata": {"name": name}})
    account = f"/api/v1/tenants/{name}/namespaces/default/serviceaccounts/default"
    binding = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterrolebindings/admin-role-binding"
    wait_until(lambda: all(server.system.get(path).status == 200 for path in (account, binding)))
    return server.as_tenant(name)


@pytest.fixture
def name() -> str:
    return f"g{next(_NUMBERS)}"


def make(caller: Caller, name: str, *owners: dict[str, Any], path: str = PATH, **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": list(owners), **meta}
    answer = caller.post(path, {"metadata": metadata})
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def reference(owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = owner["metadata"]
    return {
        "apiVersion": owner.get("apiVersion", "v1"),
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        **more,
    }


def gone(caller: Caller, name: str, path: str = PATH) -> bool:
    return caller.get(f"{path}/{name}").status == 404


def settled(caller: Caller) -> None:
    """The collector has been through everything that was written before: a probe of its own went."""
    name = f"probe-{next(_NUMBERS)}"
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never-was", "uid": f"never-{name}"}
    make(caller, name, absent)
    wait_until(lambda: gone(caller, name))


def test_dependents_go_with_their_owner_and_theirs_with_them(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    child = make(acme, f"{name}-child", reference(owner))
    make(acme, f"{name}-grandchild", reference(child))
    acme.delete(f"{PATH}/{name}")
    wait_until(lambda: gone(acme, f"{name}-child") and gone(acme, f"{name}-grandchild"))


def test_an_object_made_for_an_owner_that_is_gone_goes_too(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    acme.delete(f"{PATH}/{name}")
    make(acme, f"{name}-late", reference(owner))
    wait_until(lambda: gone(acme, f"{name}-late"))


def test_a_new_owner_of_the_old_name_is_not_the_old_owner(acme: Caller, name: str) -> None:
    old = make(acme, name)
    acme.delete(f"{PATH}/{name}")
    make(acme, name)
    make(acme, f"{name}-child", reference(old))
    wait_until(lambda: gone(acme, f"{name}-child"))
    assert not gone(acme, name)


def test_with_one_owner_left_the_object_stays_and_forgets_the_others(acme: Caller, name: str) -> None:
    first, second = make(acme, f"{name}-1"), make(acme, f"{name}-2")
    make(acme, name, reference(first), reference(second))
    acme.delete(f"{PATH}/{name}-1")

    def owners() -> list[str]:
        return [each["name"] for each in acme.get(f"{PATH}/{name}").json["metadata"]["ownerReferences"]]

    wait_until(lambda: owners() == [f"{name}-2"])


def test_orphans_stay_without_their_reference(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    make(acme, f"{name}-child", reference(owner))
    acme.delete(f"{PATH}/{name}", {"propagationPolicy": "Orphan"})
    wait_until(lambda: gone(acme, name))
    assert "ownerReferences" not in acme.get(f"{PATH}/{name}-child").json["metadata"]


def test_in_the_foreground_the_owner_waits_for_those_that_block_it(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    make(acme, f"{name}-free", reference(owner), finalizers=["example.com/held"])
    make(acme, f"{name}-block", reference(owner, blockOwnerDeletion=True), finalizers=["example.com/held"])
    acme.delete(f"{PATH}/{name}", {"propagationPolicy": "Foreground"})
    wait_until(lambda: "deletionTimestamp" in acme.get(f"{PATH}/{name}-block").json["metadata"])
    wait_until(lambda: "deletionTimestamp" in acme.get(f"{PATH}/{name}-free").json["metadata"])
    settled(acme)
    assert not gone(acme, name)
    acme.patch(f"{PATH}/{name}-block", {"metadata": {"finalizers": []}})
    wait_until(lambda: gone(acme, name))
    assert not gone(acme, f"{name}-free")
    acme.patch(f"{PATH}/{name}-free", {"metadata": {"finalizers": []}})


def test_in_the_foreground_grandchildren_go_before_children(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    child = make(acme, f"{name}-c", reference(owner, blockOwnerDeletion=True))
    make(acme, f"{name}-g", reference(child, blockOwnerDeletion=True), finalizers=["example.com/held"])
    acme.delete(f"{PATH}/{name}", {"propagationPolicy": "Foreground"})
    wait_until(lambda: "deletionTimestamp" in acme.get(f"{PATH}/{name}-g").json["metadata"])
    settled(acme)
    assert not gone(acme, f"{name}-c") and not gone(acme, name)
    acme.patch(f"{PATH}/{name}-g", {"metadata": {"finalizers": []}})
    wait_until(lambda: gone(acme, f"{name}-c") and gone(acme, name))


def test_in_the_foreground_a_circle_of_owners_goes_as_a_whole(acme: Caller, name: str) -> None:
    first = make(acme, f"{name}-1")
    second = make(acme, f"{name}-2", reference(first, blockOwnerDeletion=True))
    third = make(acme, f"{name}-3", reference(second, blockOwnerDeletion=True))
    circle = [reference(third, blockOwnerDeletion=True)]
    assert acme.patch(f"{PATH}/{name}-1", {"metadata": {"ownerReferences": circle}}).status == 200
    assert acme.delete(f"{PATH}/{name}-1?propagationPolicy=Foreground").status == 200
    wait_until(lambda: all(gone(acme, f"{name}-{number}") for number in (1, 2, 3)))


def test_an_owner_in_another_namespace_does_not_count(acme: Caller, name: str) -> None:
    other = "/api/v1/namespaces/kube-public/configmaps"
    owner = make(acme, name, path=other)
    make(acme, f"{name}-child", reference(owner))
    wait_until(lambda: gone(acme, f"{name}-child"))  # In its own namespace there is no such owner.
    assert not gone(acme, name, other)


def test_an_owner_in_another_tenant_is_no_owner(control_plane: LocalServer, acme: Caller, name: str) -> None:
    """Neither can a reference keep something of another tenant alive, nor its deletion delete anything there."""
    other = tenant(control_plane, "garbage-b")
    theirs = make(other, name)
    ours = make(acme, name)
    make(acme, f"{name}-kept", reference(ours))
    make(acme, f"{name}-fake", reference(theirs))
    wait_until(lambda: gone(acme, f"{name}-fake"))
    other.delete(f"{PATH}/{name}")
    settled(other)
    settled(acme)
    assert not gone(acme, name) and not gone(acme, f"{name}-kept")


def test_cluster_scoped_owners_and_what_cannot_be_judged(acme: Caller, name: str) -> None:
    role_path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    role = acme.post(role_path, {"metadata": {"name": name}, "rules": []}).json
    namespaced = make(acme, name)
    make(acme, f"{name}-child", reference(role))
    strange = {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "never-was"}
    make(acme, f"{name}-strange", strange)
    upside_down = {"metadata": {"name": f"{name}-u", "ownerReferences": [reference(namespaced)]}, "rules": []}
    acme.post(role_path, upside_down)
    acme.delete(f"{role_path}/{name}")
    acme.delete(f"{PATH}/{name}")
    wait_until(lambda: gone(acme, f"{name}-child"))
    settled(acme)
    assert not gone(acme, f"{name}-strange") and not gone(acme, f"{name}-u", role_path)


def test_custom_kinds_own_and_are_owned(acme: Caller, name: str) -> None:
    plural = f"{name}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": name, "kind": name.capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    assert acme.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status == 201
    path = f"/apis/example.com/v1/namespaces/default/{plural}"
    wait_until(lambda: acme.get(path).status == 200)
    body = {"apiVersion": "example.com/v1", "kind": name.capitalize(), "metadata": {"name": "one"}}
    owner = acme.post(path, body).json
    make(acme, f"{name}-child", reference(owner))
    child = {**body, "metadata": {"name": "two", "ownerReferences": [reference(owner)]}}
    assert acme.post(path, child).status == 201
    acme.delete(f"{path}/one")
    wait_until(lambda: gone(acme, f"{name}-child") and gone(acme, "two", path))


def test_many_dependents_go_quickly(acme: Caller, name: str) -> None:
    owner = make(acme, name)
    for number in range(100):
        make(acme, f"{name}-{number}", reference(owner))
    acme.delete(f"{PATH}/{name}")
    wait_until(lambda: all(gone(acme, f"{name}-{number}") for number in range(100)))
