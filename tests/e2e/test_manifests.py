"""Every manifest of `examples/manifests`, applied unchanged with kubectl in its order, ends as its comment says.

One test per manifest, on one cluster: later ones build on earlier ones.
"""

import json
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import Caller, LocalServer, wait_until

MANIFESTS = Path(__file__).parents[2] / "examples" / "manifests"
READINESS = "arktos.futurewei.com/network-readiness"

pytestmark = pytest.mark.xdist_group("manifests")


class Cluster:
    def __init__(self, server: LocalServer) -> None:
        self.server = server

    @property
    def ring0(self) -> Caller:
        return self.server.system

    @property
    def acme(self) -> Caller:
        return self.server.as_tenant("acme")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("manifests")
    with LocalServer(directory) as server, LocalControllers(server, directory):
        yield Cluster(server)


def apply(caller: Caller, number: str) -> str:
    [path] = MANIFESTS.glob(f"{number}-*.yaml")
    return caller.kubectl("apply", "-f", str(path))


def read(caller: Caller, *what: str) -> Any:
    found = caller.kubectl("get", *what, "-o", "json", check=False)
    return json.loads(found) if found.startswith("{") else {}


def wait(check: Callable[[], Any]) -> Any:
    """As `wait_until`, but kubectl takes its time: no need to ask more often."""

    def slowly() -> Any:
        answer = check()
        if not answer:
            time.sleep(0.2)
        return answer

    return wait_until(slowly)


def is_ready(caller: Caller, network: str) -> Any:
    return wait(
        lambda: (now := read(caller, "network", network).get("status", {})).get("phase") == "Ready" and now
    )


def is_provisioned(caller: Caller, what: str) -> None:
    wait(lambda: read(caller, what)["spec"]["status"] == "Provisioned")


def endpoint(cluster: Cluster, pod: str) -> Any:
    """The one that a pod of acme has."""

    def found() -> Any:
        items = read(cluster.ring0, "endpoints.mizar.com").get("items", ())
        return next(
            (each["spec"] for each in items if each["spec"].get("pod") == f"acme/default/{pod}"), None
        )

    return wait(found)


def inside(address: str, cidr: str) -> bool:
    return ip_address(address) in ip_network(cidr)


def test_every_manifest_has_a_test() -> None:
    numbers = {path.name[:2] for path in MANIFESTS.glob("*.yaml")}
    tests = {name.split("_")[1] for name in globals() if name.startswith("test_") and name[5:7].isdigit()}
    assert numbers == tests and len(numbers) == 16


def test_01_a_tenant_with_its_first_objects(cluster: Cluster) -> None:
    assert "created" in apply(cluster.ring0, "01")
    acme = wait(
        lambda: cluster.acme if read(cluster.ring0, "tenant", "acme")["status"].get("conditions") else None
    )
    names = wait(lambda: len(found := acme.kubectl("get", "namespaces", "-o", "name").split()) >= 3 and found)
    assert set(names) >= {f"namespace/{each}" for each in ("default", "kube-system", "kube-public")}
    assert read(acme, "clusterrole", "admin-role") and read(acme, "clusterrolebinding", "admin-role-binding")
    assert is_ready(acme, "default")["message"] == "DNS service ready; network ready"


def test_02_a_flat_network(cluster: Cluster) -> None:
    apply(cluster.acme, "02")
    now = is_ready(cluster.acme, "shared-floor")
    dns = read(cluster.acme, "service", "-n", "kube-system", "kube-dns-shared-floor")
    assert dns["spec"]["clusterIP"] == now["dnsServiceIP"]


def test_03_a_vpc_network_in_a_free_range(cluster: Cluster) -> None:
    apply(cluster.acme, "03")
    now = is_ready(cluster.acme, "vpc-1")
    vpc = read(cluster.ring0, "vpc", "vpc-1a2b3c4d")["spec"]
    subnet = read(cluster.ring0, "subnet", "vpc-1a2b3c4d-subnet")["spec"]
    assert vpc["status"] == subnet["status"] == "Provisioned" and subnet["vpc"] == "vpc-1a2b3c4d"
    assert now["cidr"] == f"{vpc['ip']}/{vpc['prefix']}" and now["message"] == "DNS service IP allocated"


def test_04_the_same_in_its_own_group(cluster: Cluster) -> None:
    apply(cluster.acme, "04")
    assert is_ready(cluster.acme, "vpc-2")["vpc"] == "vpc-2b3c4d5e"


def test_05_a_vpc_that_is_made_with_a_range(cluster: Cluster) -> None:
    apply(cluster.acme, "05")
    assert is_ready(cluster.acme, "blue")["cidr"] == "172.16.0.0/16"
    assert read(cluster.ring0, "vpc", "vpc123f3")["spec"]["ip"] == "172.16.0.0"


def test_06_a_vpc_and_subnets_written_directly(cluster: Cluster) -> None:
    apply(cluster.ring0, "06")
    for what in ("vpc/vpc01", "subnet/net1", "subnet/net2"):
        is_provisioned(cluster.ring0, what)


def test_07_a_network_on_a_vpc_that_is_there(cluster: Cluster) -> None:
    apply(cluster.acme, "07")
    now = is_ready(cluster.acme, "green")
    assert (now["vpc"], now["subnets"]) == ("vpc01", ["net1", "net2"])


def test_08_a_network_with_a_vpc_of_its_own(cluster: Cluster) -> None:
    apply(cluster.acme, "08")
    assert is_ready(cluster.acme, "my-network")["vpc"] == "acme-my-network"


def test_09_a_service_of_a_network(cluster: Cluster) -> None:
    apply(cluster.acme, "09")
    [cidr] = is_ready(cluster.acme, "my-network")["serviceCIDRs"]
    address = wait(lambda: read(cluster.acme, "service", "my-service")["spec"].get("clusterIP"))
    assert inside(address, cidr)


def test_10_a_pod_of_the_default_network(cluster: Cluster) -> None:
    apply(cluster.acme, "10")
    assert endpoint(cluster, "nginx")["vni"] == is_ready(cluster.acme, "default")["vni"]


def test_11_a_pod_of_a_network(cluster: Cluster) -> None:
    apply(cluster.acme, "11")
    spec, now = endpoint(cluster, "nginx-vpc"), is_ready(cluster.acme, "vpc-1")
    assert spec["net"] == "vpc-1a2b3c4d-subnet" and inside(spec["ip"], now["cidr"])
    marks = wait(
        lambda: read(cluster.acme, "pod", "nginx-vpc")["metadata"].get("annotations", {}).get("mizar.com/vpc")
    )
    assert marks == "vpc-1a2b3c4d"


def test_12_exactly_this_subnet_and_address(cluster: Cluster) -> None:
    apply(cluster.acme, "12")
    spec = endpoint(cluster, "nginx-nic")
    assert (spec["net"], spec["ip"], spec["vpc"]) == ("net1", "10.0.1.12", "vpc01")


def test_13_a_pod_of_the_network_of_its_label(cluster: Cluster) -> None:
    apply(cluster.acme, "13")
    assert endpoint(cluster, "nginx-label")["vpc"] == "vpc-2b3c4d5e"


def test_14_an_address_outside_its_subnet(cluster: Cluster) -> None:
    apply(cluster.acme, "14")
    status = wait(lambda: (now := read(cluster.acme, "pod", "stray")["status"])["phase"] == "Failed" and now)
    for part in ("192.168.0.12", "net1", "10.0.1.0/24"):
        assert part in status["message"]
    used = [each["spec"].get("pod") for each in read(cluster.ring0, "endpoints.mizar.com")["items"]]
    assert "acme/default/stray" not in used
    assert "192.168.0.12" in cluster.acme.kubectl("describe", "pod", "stray")


def test_15_a_subnet_outside_its_vpc(cluster: Cluster) -> None:
    apply(cluster.ring0, "15")
    subnet = wait(
        lambda: (now := read(cluster.ring0, "subnet", "stray-net"))["spec"]["status"] == "Failed" and now
    )
    message = wait(lambda: read(cluster.ring0, "subnet", "stray-net").get("status", {}).get("message"))
    assert subnet and "192.168.0.0/24" in message and "10.0.0.0/16" in message
    assert is_ready(cluster.acme, "green"), "and nobody else is hurt"


def test_16_a_flat_network_ignores_nics(cluster: Cluster) -> None:
    apply(cluster.acme, "16")
    spec, now = endpoint(cluster, "flat-nic"), is_ready(cluster.acme, "shared-floor")
    assert inside(spec["ip"], now["cidr"]) and spec["ip"] != "192.168.0.12" and spec["vni"] == now["vni"]
    wait(lambda: "nics were ignored" in cluster.acme.kubectl("describe", "pod", "flat-nic"))


def test_the_story_at_a_glance(cluster: Cluster) -> None:
    shown = cluster.acme.kubectl("get", "net", "-o", "wide")
    for word in ("CIDR", "VNI", "PHASE", "AGE", "172.16.0.0/16", "Ready"):
        assert word in shown
    shown = cluster.ring0.kubectl("get", "vpc,subnet,endpoints.mizar.com", "-o", "wide")
    for word in ("CIDR", "VNI", "USED", "FREE", "STATUS", "AGE", "acme/default/nginx-nic", "10.0.1.12"):
        assert word in shown


def test_what_was_applied_is_applied_again_unchanged(cluster: Cluster) -> None:
    for number in ("02", "04", "05", "07", "08", "09"):
        assert "unchanged" in apply(cluster.acme, number), number
    # `vpc-id` is kept as `vpcID`, so kubectl sends it anew each time; nothing changes.
    before = read(cluster.acme, "network", "vpc-1")["spec"]
    apply(cluster.acme, "03")
    assert read(cluster.acme, "network", "vpc-1")["spec"] == before


def test_a_deleted_tenant_leaves_nothing_anywhere(cluster: Cluster) -> None:
    cluster.ring0.kubectl("delete", "tenant", "acme", "--wait=false")
    wait_until(lambda: not read(cluster.ring0, "tenant", "acme"))
    for what in ("vpc", "subnet", "endpoints.mizar.com", "dividers", "bouncers"):
        wait(lambda: "acme" not in json.dumps(read(cluster.ring0, what)["items"]))  # noqa: B023 - called at once
    assert read(cluster.ring0, "vpc", "vpc01"), "what ring0 wrote stays"
