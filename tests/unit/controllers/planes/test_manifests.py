"""The objects of a dedicated plane: what a Tenant's spec turns into."""

from typing import Any

from alcove import __version__
from alcove.controllers.planes import manifests
from alcove.controllers.planes.manifests import PlaneNames

NAMES = PlaneNames("acme", "uid-1")
KEYS = {"ca.crt": "certificate", "ca.key": "key", "sa.key": "signing"}


def container(**control_plane: Any) -> dict[str, Any]:
    made = manifests.stateful_set(NAMES, control_plane, KEYS, 16_450)
    [found] = made["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_server_gets_what_the_tenant_asks_for() -> None:
    found = container(
        version="9.9",
        certificateSANs=["api.example"],
        resources={"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
    )
    assert found["image"] == "alcove/alcove:9.9"
    assert found["args"][-2:] == ["--name", "api.example"]
    assert found["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    assert container()["image"].endswith(f":{__version__}")
    made = manifests.stateful_set(NAMES, {"runtimeClassName": "kata"}, KEYS, 16_450)
    assert made["spec"]["template"]["spec"]["runtimeClassName"] == "kata"
    assert manifests.port_of(made) == 16_450
    assert manifests.claim(NAMES, {"storage": {"size": "5Gi"}})["spec"]["resources"]["requests"] == {
        "storage": "5Gi"
    }


def test_the_server_has_no_rights_on_its_node() -> None:
    pod = manifests.stateful_set(NAMES, {}, KEYS, 16_450)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert {next(iter(each.keys() - {"name"})) for each in pod["volumes"]} == {
        "persistentVolumeClaim",
        "secret",
        "emptyDir",
    }


def test_other_keys_replace_the_pod() -> None:
    before, after = (
        manifests.stateful_set(NAMES, {}, {**KEYS, "ca.crt": each}, 1)["spec"]["template"]["metadata"]
        for each in "ab"
    )
    assert before != after


def test_an_earlier_tenant_of_the_name_owns_nothing() -> None:
    secret = manifests.keys_secret(NAMES, KEYS)
    assert NAMES.owns(secret) and not PlaneNames("acme", "uid-2").owns(secret)
    assert manifests.decoded(secret) == KEYS
    assert manifests.decoded({"data": {"ca.crt": "%%%"}}) == {}


def test_a_kubeconfig_is_issued_again_when_what_it_says_changes() -> None:
    stamp = manifests.stamp("https://a", KEYS, "uid", ("dev",))
    others = [
        manifests.stamp("https://b", KEYS, "uid", ("dev",)),
        manifests.stamp("https://a", {**KEYS, "ca.crt": "other"}, "uid", ("dev",)),
        manifests.stamp("https://a", KEYS, "uid-2", ("dev",)),
        manifests.stamp("https://a", KEYS, "uid", ("dev", "ops")),
    ]
    assert len({stamp, *others}) == 5


def test_no_two_planes_have_objects_of_one_name() -> None:
    tenants = [PlaneNames(name, "u") for name in ("a", "b", "a-b", "a-user-b", "user-b")]
    names = [each.plane for each in tenants] + [
        each.user(user) for each in tenants for user in ("b", "user-b", "a")
    ]
    assert len(set(names)) == len(names)
