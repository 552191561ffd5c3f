"""Services, pods and agents come and go; every network namespace of every node has what the objects say, and no more.

What stays behind does harm later: an address that a gateway kept was given to a pod, which its own node could not reach.
"""

import random
from collections.abc import Iterator
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.testing.netns_state import NamespaceState, read_state, translations
from alcove.testing.nodecluster import AttachedPod, NodeCluster, node_cluster
from alcove.testing.nodenetworks import LabNodeNetwork
from alcove.testing.server import wait_until

TENANT = "red"
NETWORKS = {
    "own": ("10.7.0.0/16", "10.7.0.1", "10.96.0.0/20"),
    "six": ("fd00:7::/64", "fd00:7::1", "fd00:96::/112"),
}
"""Range, gateway and range of services."""
SERVICES = f"/api/v1/tenants/{TENANT}/namespaces/default/services"
PODS_MAX = 5
STEPS = 12

External = dict[tuple[str, str, int], str]
"""Where an address, protocol and port of a node leads to."""


class Fleet:
    """The cluster with what the test has made in it."""

    def __init__(self, cluster: NodeCluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.pods: list[AttachedPod] = []
        self.services: list[str] = []
        self.made = 0
        self.vnis: dict[str, int] = {}

    def set_up(self) -> None:
        system, must = self.cluster.server.system, self.cluster.must
        self.cluster.make_tenant(TENANT)
        for name, (cidr, _, services) in NETWORKS.items():
            base, _, length = cidr.partition("/")
            spec = {"type": "vpc", "ip": base, "prefix": int(length), "service": {"cidrs": [services]}}
            self.cluster.make_network(TENANT, name, spec)
            self.vnis[name] = int(must(system.get(f"/apis/mizar.com/v1/vpcs/{TENANT}-{name}"))["spec"]["vni"])
        vpc = {"metadata": {"name": "outside"}, "spec": {"ip": "198.51.100.0", "prefix": 24}}
        must(system.post("/apis/mizar.com/v1/vpcs", vpc))
        pool = {"ip": "198.51.100.0", "prefix": 27, "vpc": "outside"}
        metadata = {"name": "outside", "labels": {"alcove.io/outside": "true"}}
        must(system.post("/apis/mizar.com/v1/subnets", {"metadata": metadata, "spec": pool}))

    # Changes

    def change(self) -> None:
        kinds = [self.add_service, self.add_service, self.alter_service, self.remove_service, self.add_pod]
        self.chance.choice([*kinds, self.remove_pod, self.restart])()

    def add_pod(self) -> None:
        if len(self.pods) < PODS_MAX:
            node, network = self.chance.randrange(2), self.chance.choice(list(NETWORKS))
            self.pods.append(self.cluster.place_pod(TENANT, node, network))

    def remove_pod(self) -> None:
        if len(self.pods) > 1:
            self.cluster.remove_pod(self.pods.pop(self.chance.randrange(len(self.pods))))

    def add_service(self) -> None:
        self.made += 1
        name = f"service-{self.made}"
        network = self.chance.choice(list(NETWORKS))
        port = {"port": 80, "protocol": self.chance.choice(("TCP", "UDP"))}
        spec = {"network": network, "ports": [port], "selector": {}, **self._exposure(network)}
        self.cluster.must(
            self.cluster.server.system.post(SERVICES, {"metadata": {"name": name}, "spec": spec})
        )
        self.services.append(name)

    def _exposure(self, network: str) -> Object:
        kinds = ["ClusterIP", "NodePort", "NodePort", *(["LoadBalancer"] * 2 if network == "own" else [])]
        kind = self.chance.choice(kinds)
        policy = {"externalTrafficPolicy": self.chance.choice(("Local", "Cluster"))}
        return {"type": kind, **(policy if kind != "ClusterIP" else {})}

    def alter_service(self) -> None:
        """The type, and who is let in: what the old type had must go."""
        if self.services:
            path = f"{SERVICES}/{self.chance.choice(self.services)}"
            spec = self.cluster.must(self.cluster.server.system.get(path))["spec"]
            exposure = {"externalTrafficPolicy": None, **self._exposure(spec["network"])}
            self.cluster.must(self.cluster.server.system.patch(path, {"spec": exposure}))

    def remove_service(self) -> None:
        if self.services:
            name = self.services.pop(self.chance.randrange(len(self.services)))
            self.cluster.must(self.cluster.server.system.delete(f"{SERVICES}/{name}"))

    def restart(self) -> None:
        """An agent that does not see a service go."""
        node = self.cluster.nodes[self.chance.randrange(2)]
        node.stop()
        self.remove_service()
        node.start()

    # What is, and what should be

    def check(self) -> None:
        wait_until(self._balanced)
        seen: list[tuple[object, object]] = []

        def is_right() -> bool:
            wanted, found = self._wanted(), self._found()
            seen[:] = [(wanted, found)]
            return wanted == found

        try:
            wait_until(is_right)
        except AssertionError:
            for wanted, found in seen:
                assert found == wanted
            raise

    def _balanced(self) -> bool:
        """Whether every load balancer has its address."""
        return all(
            each["status"]["loadBalancer"].get("ingress")
            for each in self._objects(SERVICES)
            if each["spec"]["type"] == "LoadBalancer"
        )

    def _objects(self, path: str) -> list[Object]:
        return list(self.cluster.must(self.cluster.server.system.get(path))["items"])

    def _wanted(self) -> dict[str, Any]:
        services = [each for each in self._objects(SERVICES) if each["metadata"]["name"] in self.services]
        gateways = {
            (each["spec"]["droplet"], int(each["spec"]["vni"])): each["spec"]["ip"]
            for each in self._objects("/apis/mizar.com/v1/endpoints?fieldSelector=spec.type%3Dgateway")
        }
        wanted: dict[str, Any] = {}
        for node in self.cluster.nodes.all:
            here = [pod for pod in self.pods if pod.node is node]
            for pod in here:
                wanted[Path(pod.attachment.namespace_path).name] = self._wanted_pod(pod)
            external: External = {}
            present = {pod.obj["spec"]["network"] for pod in here}
            for network in present:
                own = gateways.get((node.name, self.vnis[network]))
                of_network = [each for each in services if each["spec"]["network"] == network]
                leads = _external(node, of_network, has_gateway=own is not None)
                wanted[_gateway(node, self.vnis[network])] = _wanted_gateway(network, own, leads)
                external |= leads
            wanted[f"{node.name} external"] = external
            wanted[f"{node.name} exit"] = {"out", *(f"g{self.vnis[each]:x}" for each in present)}
        return wanted

    def _wanted_pod(self, pod: AttachedPod) -> Any:
        cidr, gateway, _ = NETWORKS[pod.obj["spec"]["network"]]
        address = f"{pod.address}/{cidr.rpartition('/')[2]}"
        return {"eth0": {address}}, {"eth0": {f"default via {gateway}"}}

    def _found(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node in self.cluster.nodes.all:
            prefix = f"alcove-{node.node.instance}-"
            exit_state = read_state(f"{prefix}exit")
            found[f"{node.name} exit"] = set(exit_state.addresses)
            into_gateways = translations(f"{prefix}exit")
            external: External = dict.fromkeys(into_gateways, "nowhere")
            for name in namespaces.names(prefix):
                state = read_state(name) if name != f"{prefix}exit" else exit_state
                if name.startswith(f"{prefix}p"):
                    found[name] = (state.addresses, state.routes)
                elif name.startswith(f"{prefix}g"):
                    uplink = _uplink(state, exit_state, name.removeprefix(prefix))
                    into_services = translations(name)
                    found[name] = (state.addresses["net"], state.routes["net"], uplink)
                    found[name] += (set(into_services.values()),)
                    external |= _joined(into_gateways, into_services)
            found[f"{node.name} external"] = external
        return found


def _gateway(node: LabNodeNetwork, vni: int) -> str:
    return f"alcove-{node.node.instance}-g{vni:x}"


def _wanted_gateway(network: str, own: str | None, leads: External) -> Any:
    cidr, gateway, services = NETWORKS[network]
    width = 32 if ip_address(gateway).version == 4 else 128
    addresses = {f"{gateway}/{cidr.rpartition('/')[2]}", *([f"{own}/{width}"] if own else ())}
    # A service with `Local` is at the external address itself.
    local = {address for (address, _, port), target in leads.items() if target == _at(address, port)}
    return addresses, {cidr, services, *local}, "paired", set(leads.values())


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _external(node: LabNodeNetwork, services: list[Object], *, has_gateway: bool) -> External:
    external: External = {}
    for service in services:
        spec = service["spec"]
        is_local = spec.get("externalTrafficPolicy") == "Local"
        if spec["type"] == "ClusterIP" or not (is_local or has_gateway):
            continue
        [port] = spec["ports"]
        own = node.node.address6 if ":" in spec["clusterIP"] else node.node.address
        ingress = service["status"]["loadBalancer"].get("ingress", [])
        for address, number in ((str(own), port["nodePort"]), *((each["ip"], 80) for each in ingress)):
            target = _at(address, number) if is_local else _at(spec["clusterIP"], 80)
            external[address, port["protocol"].lower(), number] = target
    return external


def _uplink(gateway: NamespaceState, exit_state: NamespaceState, name: str) -> str:
    """`paired` if both sides of the link between gateway and exit have one address of each family, routes and
    neighbours that belong together, and the gateway no other link."""
    inner, outer = gateway.addresses["up"], exit_state.addresses[name]
    pairs = {(str(ip_interface(one).ip - 1), one.partition("/")[2]) for one in inner}
    if pairs != {tuple(one.split("/")) for one in outer} or len(pairs) != 2:
        return f"addresses {inner} and {outer}"
    peers = {str(ip_interface(one).ip) for one in outer}
    if gateway.routes["up"] != {f"default via {one}" for one in peers}:
        return f"routes {gateway.routes['up']}"
    six = {one for one in peers if ":" in one}
    permanent = gateway.neighbors.get("up", set()), gateway.neighbors.get("net", set())
    if permanent != (six, set()) or set(gateway.addresses) != {"net", "up"}:
        return f"neighbours {permanent}, links {set(gateway.addresses)}"
    return "paired"


def _joined(into_gateways: External, into_services: External) -> External:
    """What both translations together do, for those that lead to this gateway."""
    targets = {_at(address, port): target for (address, _, port), target in into_services.items()}
    return {key: targets[hop] for key, hop in into_gateways.items() if hop in targets}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with node_cluster(tmp_path_factory.mktemp("gateways-reconcile"), 2, "203.0.113.5/24") as made:
        yield made


@pytest.fixture(scope="module")
def fleet(cluster: NodeCluster) -> Fleet:
    made = Fleet(cluster, seed=0)
    made.set_up()
    return made


def must_hold_at_random(fleet: Fleet, seed: int) -> None:
    fleet.chance = random.Random(seed)
    fleet.add_pod()
    for step in range(1, STEPS + 1):
        fleet.change()
        if step % 4 == 0:
            fleet.check()
    while fleet.services:
        fleet.remove_service()
    fleet.check()
    gateways = "/apis/mizar.com/v1/endpoints?fieldSelector=spec.type%3Dgateway"
    wait_until(lambda: not fleet.cluster.server.system.get(gateways).json["items"])
    fleet.check()
    while fleet.pods:
        fleet.cluster.remove_pod(fleet.pods.pop())
    fleet.check()


def test_every_namespace_has_what_the_objects_say(fleet: Fleet) -> None:
    must_hold_at_random(fleet, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 30))
def test_every_namespace_has_what_the_objects_say_at_many_seeds(fleet: Fleet, seed: int) -> None:
    must_hold_at_random(fleet, seed)
