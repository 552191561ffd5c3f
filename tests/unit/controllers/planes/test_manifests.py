"""The objects of a dedicated plane: what a Tenant's spec turns into."""

from typing import Any

from alcove import __version__
from alcove.agent.images import etcd_image
from alcove.controllers.planes import etcd_manifests, manifests
from alcove.controllers.planes.manifests import PlaneNames, ServerManifest

NAMES = PlaneNames("acme", "uid-1")
KEYS = {"ca.crt": "certificate", "ca.key": "key", "sa.key": "signing"}


def container(**control_plane: Any) -> dict[str, Any]:
    made = ServerManifest(NAMES, control_plane, KEYS, 16_450).build()
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
    made = ServerManifest(NAMES, {"runtimeClassName": "kata"}, KEYS, 16_450).build()
    assert made["spec"]["template"]["spec"]["runtimeClassName"] == "kata"
    assert manifests.port_of(made) == 16_450
    assert manifests.claim(NAMES, {"storage": {"size": "5Gi"}})["spec"]["resources"]["requests"] == {
        "storage": "5Gi"
    }


def test_the_server_has_no_rights_on_its_node() -> None:
    pod = ServerManifest(NAMES, {}, KEYS, 16_450).build()["spec"]["template"]["spec"]
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
        ServerManifest(NAMES, {}, {**KEYS, "ca.crt": each}, 1).build()["spec"]["template"]["metadata"]
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
    secrets = [each.plane for each in tenants] + [
        each.user(user) for each in tenants for user in ("b", "user-b", "a")
    ]
    tenants += [PlaneNames(name, "u") for name in ("1-a", "store-a", "1", "store")]
    sets = [each.server(number) for each in tenants for number in range(3)] + [each.store for each in tenants]
    for names in (secrets, sets):
        assert len(set(names)) == len(names)


ETCD = {"etcd-ca.crt": "authority", "etcd.crt": "pair", "etcd.key": "secret"}


def test_servers_on_etcd_keep_nothing_and_share_it() -> None:
    control_plane = {"storage": {"type": "etcd"}, "replicas": 2}
    made = [
        ServerManifest(NAMES, control_plane, {**KEYS, **ETCD}, 16_450 + each, each, "10.0.0.1:16449").build()
        for each in range(2)
    ]
    first, second = (each["spec"]["template"]["spec"] for each in made)
    arguments = first["containers"][0]["args"]
    assert arguments[arguments.index("--etcd") + 1] == "10.0.0.1:16449" == manifests.etcd_of(made[0])
    assert first["volumes"] == second["volumes"]
    assert not [each for each in first["volumes"] if "persistentVolumeClaim" in each]
    assert made[0]["spec"]["selector"] != made[1]["spec"]["selector"]
    assert [manifests.port_of(each) for each in made] == [16_450, 16_451]


def test_neither_version_nor_authority_restart_etcd() -> None:
    def etcd(keys: dict[str, str]) -> dict[str, Any]:
        return etcd_manifests.stateful_set(NAMES, "1Gi", keys, 16_450, is_stopped=False)

    made = etcd({**KEYS, **ETCD})
    assert made == etcd({**KEYS, **ETCD, "ca.crt": "new"})
    assert made != etcd({**KEYS, **ETCD, "etcd.crt": "new"})
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert container["image"] == etcd_image.NAME
    assert "--quota-backend-bytes=805306368" in container["args"], "the log needs its part of the volume"
    [keys] = [each["secret"] for each in made["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    assert {each["key"] for each in keys["items"]} == set(ETCD), "not the plane's authority"
