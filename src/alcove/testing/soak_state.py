"""The objects of a cluster that decide what its nodes have, read once, for the comparisons of `soak_checks.py`."""

from __future__ import annotations

from alcove.api.objects import Object
from alcove.testing.cluster import RealCluster
from alcove.vpc.defaults import DEFAULT_VPC

MIZAR = "/apis/mizar.com/v1"
OWNER_LABEL = "mizar.com/owner"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
EVERYWHERE = "/tenants/all"


def owner_uid(endpoint: Object) -> str:
    return str(endpoint["metadata"]["labels"][OWNER_LABEL])


class ClusterState:
    def __init__(self, cluster: RealCluster) -> None:
        system = cluster.server.system

        def items(path: str) -> list[Object]:
            answer = system.get(path)
            assert answer.status == 200, (path, answer.status, answer.body)
            found: list[Object] = answer.json["items"]
            return found

        self.pods = items(f"/api/v1{EVERYWHERE}/pods")
        self.services = items(f"/api/v1{EVERYWHERE}/services")
        self.claims = items(f"/api/v1{EVERYWHERE}/persistentvolumeclaims")
        self.volumes = items(f"/api/v1{EVERYWHERE}/persistentvolumes")
        self.networks = items(f"/apis/arktos.futurewei.com/v1{EVERYWHERE}/networks")
        self.addresses = items(f"/apis/networking.k8s.io/v1{EVERYWHERE}/ipaddresses")
        self.policies = items(f"/apis/networking.k8s.io/v1{EVERYWHERE}/networkpolicies")
        self.tenants = items("/api/v1/tenants")
        self.nodes = items("/api/v1/nodes")
        self.leases = items(NODE_LEASES)
        self.endpoints = items(f"{MIZAR}/endpoints")
        self.vpcs = items(f"{MIZAR}/vpcs")
        self.subnets = items(f"{MIZAR}/subnets")
        self.dividers = items(f"{MIZAR}/dividers")
        self.bouncers = items(f"{MIZAR}/bouncers")
        self.droplets = items(f"{MIZAR}/droplets")

    def of_type(self, kind: str) -> list[Object]:
        """Endpoints: `simple` of pods, `door` of external ports and addresses, `gateway` of nodes."""
        return [each for each in self.endpoints if each["spec"]["type"] == kind]

    def endpoints_on(self, node: str) -> list[Object]:
        """Those of pods."""
        return [each for each in self.of_type("simple") if each["spec"].get("droplet") == node]

    def served_vnis(self, node: str) -> set[int]:
        """Networks for which the node is a bouncer or divider. Flat networks need none."""
        vpcs = {
            each["spec"]["vpc"]
            for each in (*self.bouncers, *self.dividers)
            if each["spec"].get("droplet") == node and each["spec"]["vpc"] != DEFAULT_VPC
        }
        return {
            int(each["spec"]["vni"])
            for each in self.vpcs
            if each["metadata"]["name"] in vpcs and each["spec"].get("vni")
        }
