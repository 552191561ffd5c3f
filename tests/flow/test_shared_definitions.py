"""CRDs that ring0 shares with all tenants, on a dedicated plane: made, changed, withdrawn and deleted with ring0's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing.local import LocalProcess
from alcove.testing.server import Caller, LocalServer, wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GEARS = "/apis/shared.example/v1/namespaces/default/gears"
GEAR_CRD = f"{DEFINITIONS}/gears.shared.example"
LABEL = "arktos.futurewei.com/crd-sharing-policy"
SECONDS_MAX = 60.0


def definition(plural: str, **labels: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": plural.capitalize()}
    spec = {"group": "shared.example", "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.shared.example", "labels": labels}, "spec": spec}


class SharedPlane:
    """The home plane with a shared CRD, controllers, and the plane of the tenant `big`, which was made after the CRD."""

    def __init__(self, directory: Path) -> None:
        folder = directory / "planes"
        folder.mkdir()
        self.home, self.own = LocalServer(directory / "home"), LocalServer(directory / "own")
        self.home.start()
        self.own.start()
        options = ("--kubeconfig", str(self.home.admin_kubeconfig), "--planes", str(folder))
        self.controllers = LocalProcess("controllers", directory / "controllers.log", *options)
        self.controllers.start()
        self.controllers.wait()
        shared = definition("gears", **{LABEL: "forced"})
        assert self.home.system.post(DEFINITIONS, shared).status == 201
        assert self.home.system.post(DEFINITIONS, definition("screws")).status == 201
        tenant = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
        assert self.home.system.post("/api/v1/tenants", tenant).status == 201
        (folder / "big.kubeconfig").write_bytes(self.own.admin_kubeconfig.read_bytes())
        admin = "/apis/rbac.authorization.k8s.io/v1/tenants/big/clusterrolebindings/admin-role-binding"
        wait_until(lambda: self.own.system.get(admin).status == 200, SECONDS_MAX)
        self.big: Caller = self.own.as_tenant("big")

    def copy(self, path: str = GEAR_CRD) -> Object:
        found: Object = self.own.system.get(path).json
        return found

    def stop(self) -> None:
        self.controllers.stop()
        self.own.stop()
        self.home.stop()


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedPlane]:
    made = SharedPlane(tmp_path_factory.mktemp("shared"))
    yield made
    made.stop()


def test_a_plane_gets_them_and_only_ring0_may_change_them(planes: SharedPlane) -> None:
    big = planes.big
    wait_until(lambda: big.post(GEARS, {"metadata": {"name": "one"}, "teeth": 7}).status == 201, SECONDS_MAX)
    for refused in (big.patch(GEAR_CRD, {"spec": {}}), big.post(DEFINITIONS, definition("gears"))):
        assert refused.status == 403, refused.body
        assert "gears.shared.example is a system CRD, you cannot overwrite it" in refused.json["message"]
    assert big.delete(GEAR_CRD).status == 403
    assert planes.own.system.get(f"{DEFINITIONS}/screws.shared.example").status == 404


def test_they_follow_changes_and_come_back(planes: SharedPlane) -> None:
    column = {"name": "Teeth", "type": "integer", "jsonPath": ".teeth"}
    path = "/spec/versions/0/additionalPrinterColumns"
    change = [{"op": "add", "path": path, "value": [column]}]
    assert planes.home.system.patch(GEAR_CRD, change, "json-patch+json").status == 200

    def columns() -> object:
        return planes.copy()["spec"]["versions"][0].get("additionalPrinterColumns")

    wait_until(lambda: columns() == [column], SECONDS_MAX)
    later = definition("belts", **{LABEL: "forced"})
    assert planes.home.system.post(DEFINITIONS, later).status == 201
    belts = f"{DEFINITIONS}/belts.shared.example"
    wait_until(lambda: planes.own.system.get(belts).status == 200, SECONDS_MAX)
    uid = planes.copy(belts)["metadata"]["uid"]
    assert planes.own.system.delete(belts).status == 200
    wait_until(lambda: planes.copy(belts).get("metadata", {}).get("uid") not in (None, uid), SECONDS_MAX)
    assert planes.home.system.delete(belts).status == 200
    wait_until(lambda: planes.own.system.get(belts).status == 404, SECONDS_MAX)


def test_objects_of_them_go_with_their_namespace_and_owner(planes: SharedPlane) -> None:
    big, maps = planes.big, "/api/v1/namespaces/default/configmaps"
    assert big.post("/api/v1/namespaces", {"metadata": {"name": "short"}}).status == 201
    inside = GEARS.replace("default", "short")
    wait_until(lambda: big.post(inside, {"metadata": {"name": "inside"}}).status == 201, SECONDS_MAX)
    owner = big.post(maps, {"metadata": {"name": "owner"}}).json["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    assert big.post(GEARS, owned).status == 201
    assert big.delete("/api/v1/namespaces/short").status == 200
    assert big.delete(f"{maps}/owner").status == 200
    wait_until(lambda: big.get("/api/v1/namespaces/short").status == 404, SECONDS_MAX)
    everywhere = big.get("/apis/shared.example/v1/gears").json["items"]
    assert "inside" not in [each["metadata"]["name"] for each in everywhere]
    wait_until(lambda: big.get(f"{GEARS}/owned").status == 404, SECONDS_MAX)


def test_one_that_is_not_shared_any_more_keeps_the_tenants_objects(planes: SharedPlane) -> None:
    home, big = planes.home.system, planes.big
    assert home.patch(GEAR_CRD, {"metadata": {"labels": {LABEL: None}}}).status == 200
    wait_until(lambda: big.get(GEARS).status == 404, SECONDS_MAX)
    assert LABEL not in planes.copy()["metadata"].get("labels", {})
    assert home.patch(GEAR_CRD, {"metadata": {"labels": {LABEL: "forced"}}}).status == 200
    wait_until(lambda: big.get(f"{GEARS}/one").status == 200, SECONDS_MAX)
    assert home.delete(GEAR_CRD).status == 200
    wait_until(lambda: planes.own.system.get(GEAR_CRD).status == 404, SECONDS_MAX)
    assert big.get(GEARS).status == 404
