"""Compares what a cluster of `testing/cluster.py` has with what its objects say it should have: ring0's objects,
and on every node namespaces, links, addresses, routes, rules, qdiscs, BPF maps (`soak_maps.py`), volumes and what is
left of deleted pods."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from alcove.agent.cgroups import Cgroups
from alcove.api import local_volumes, node_ports, service_ips
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.dataplane.veths import port_name
from alcove.testing.cluster import RealCluster, RealNode, condition, traces
from alcove.testing.nodes import BPF_ROOT
from alcove.testing.snapshot import processes
from alcove.testing.soak_maps import map_faults
from alcove.testing.soak_state import ClusterState, owner_uid

POLL_SECONDS = 0.5
NETWORK_ANNOTATION = "arktos.futurewei.com/network"
MEMORY_FACTOR_MAX, MEMORY_BYTES_MAX = 1.25, 24 << 20
"""How much a process may grow in the last half of a run."""


def faults_after(cluster: RealCluster, known_uids: set[str], seconds_max: float) -> list[str]:
    """Differences that do not disappear within that time; each is one line."""
    deadline = time.monotonic() + seconds_max
    while True:
        found = sorted(faults(cluster, known_uids))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(POLL_SECONDS)


def faults(cluster: RealCluster, known_uids: set[str]) -> Iterator[str]:
    state = ClusterState(cluster)
    yield from _objects(state)
    for node in cluster.nodes:
        yield from _node(state, node)
    yield from _traces(cluster, known_uids - {each["metadata"]["uid"] for each in state.pods})


def _name(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('tenant')}/{metadata.get('namespace', '')}/{metadata['name']}"


def _objects(state: ClusterState) -> Iterator[str]:
    for each in (
        *(*state.pods, *state.services, *state.networks, *state.tenants, *state.claims, *state.volumes),
        *(*state.policies, *state.nodes, *state.vpcs, *state.subnets, *state.endpoints),
    ):
        if "deletionTimestamp" in each["metadata"]:
            yield f"object {_name(each)} is still being deleted"
    for each in state.pods:
        if condition(each, "Ready") != "True":
            yield f"pod {_name(each)} is not ready: {each.get('status')}"
    for each in state.networks:
        if (each.get("status") or {}).get("phase") != "Ready":
            yield f"network {_name(each)} is {each.get('status')}"
    owners = {"simple": state.pods, "door": state.services}
    for kind, objects in owners.items():
        uids = {each["metadata"]["uid"] for each in objects}
        for endpoint in state.of_type(kind):
            if owner_uid(endpoint) not in uids:
                yield f"endpoint {endpoint['metadata']['name']} of {endpoint['spec']['pod']} has no owner"
    yield from _doors(state)
    yield from _addresses(state)
    networks = {f"{each['metadata']['tenant']}/{each['metadata']['name']}" for each in state.networks}
    held = {"VPC": state.vpcs, "subnet": state.subnets, "divider": state.dividers, "bouncer": state.bouncers}
    for kind, held_objects in held.items():
        for each in held_objects:
            owner = (each["metadata"].get("annotations") or {}).get(NETWORK_ANNOTATION)
            if owner and owner not in networks:
                yield f"{kind} {each['metadata']['name']} of network {owner}, which is gone"
    yield from _of_nodes(state)
    yield from _volumes(state)


def _of_nodes(state: ClusterState) -> Iterator[str]:
    nodes = {each["metadata"]["name"] for each in state.nodes}
    for kind, found in (("droplets", state.droplets), ("leases", state.leases)):
        names = {each["metadata"]["name"] for each in found}
        if names != nodes:
            yield f"{kind} {sorted(names)}, nodes {sorted(nodes)}"
    for each in state.nodes:
        if condition(each, "Ready") != "True":
            yield f"node {each['metadata']['name']} is not ready"


def _volumes(state: ClusterState) -> Iterator[str]:
    """Each volume is of a claim, and each claim that a pod uses has its volume."""
    claims = {each["metadata"]["uid"]: each for each in state.claims}
    for each in state.volumes:
        if (each["spec"].get("claimRef") or {}).get("uid") not in claims:
            yield f"volume {_name(each)} has no claim: {each.get('status')}"
    bound = {_name(each) for each in state.claims if (each.get("status") or {}).get("phase") == "Bound"}
    for pod in state.pods:
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            wanted = f"{pod['metadata']['tenant']}/{pod['metadata']['namespace']}/{claim}"
            if claim and wanted not in bound:
                yield f"claim {wanted} of pod {_name(pod)} is not bound"


def _doors(state: ClusterState) -> Iterator[str]:
    """Node ports and external addresses are exactly those that services have."""
    ports, addresses = set(), set()
    for service in state.services:
        ports |= {node_ports.claim_name(*port) for port in node_ports.held_ports(service["spec"])}
        for each in ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            addresses.add(each["ip"])
    doors = state.of_type("door")
    held_ports = {each["metadata"]["name"] for each in doors if not each["spec"].get("ip")}
    held_addresses = {each["spec"]["ip"] for each in doors if each["spec"].get("ip")}
    if held_ports != ports:
        yield f"node ports held {held_ports}, of services {ports}"
    if held_addresses != addresses:
        yield f"external addresses held {held_addresses}, of services {addresses}"


def _addresses(state: ClusterState) -> Iterator[str]:
    """Addresses that are claimed are exactly those that services have."""
    claimed = {(each["metadata"]["tenant"], each["metadata"]["name"]) for each in state.addresses}
    had = {
        (service["metadata"]["tenant"], service_ips.claim_name(network_of(service), address))
        for service in state.services
        for address in service["spec"].get("clusterIPs") or ()
        if address != "None"
    }
    if claimed != had:
        yield f"addresses claimed only {claimed - had}, of services only {had - claimed}"


# Nodes


def _node(state: ClusterState, node: RealNode) -> Iterator[str]:
    pods = state.endpoints_on(node.name)
    vnis = {each["spec"]["vni"] for each in pods}
    links = {each["ifname"]: int(each["ifindex"]) for each in _ip(node.namespace, "link", "show")}
    pod_links = {each for each in links if each.startswith(f"{node.instance}p")}
    if len(pod_links) != len(pods):
        yield f"{node.name}: {len(pod_links)} veths of pods, {len(pods)} addresses"
    prefix = f"alcove-{node.instance}-"
    pod_namespaces = namespaces.names(f"{prefix}p")
    if len(pod_namespaces) != len(pods):
        yield f"{node.name}: {len(pod_namespaces)} namespaces of pods, {len(pods)} addresses"
    inside = {each["ifname"] for each in _ip(f"{prefix}exit", "link", "show")}
    gateways = {
        "links": {
            each.removeprefix(f"{node.instance}g") for each in links if each.startswith(f"{node.instance}g")
        },
        "namespaces": {each.removeprefix(f"{prefix}g") for each in namespaces.names(f"{prefix}g")},
        "links in the exit": {each.removeprefix("g") for each in inside if each.startswith("g")},
    }
    for what, found in gateways.items():
        if {int(each, 16) for each in found} != vnis:
            yield f"{node.name}: {what} of gateways {sorted(found)}, networks with pods {sorted(vnis)}"
    for each in gateways["namespaces"]:
        if int(each, 16) in vnis:
            yield from _gateway(state, node, f"{prefix}g{each}", int(each, 16))
    yield from _filters(node, set(links))
    yield from map_faults(state, node, vnis, links)
    yield from _local_volumes(state, node)


def _filters(node: RealNode, links: set[str]) -> Iterator[str]:
    """Every link of the node has a program, and no namespace of it has rules for routing of its own."""
    guarded = {
        each["dev"] for each in _json(node.namespace, "tc", "-j", "qdisc", "show") if each["kind"] == "clsact"
    }
    if unguarded := links - guarded - {"lo"}:
        yield f"{node.name}: links without a program {sorted(unguarded)}"
    for name in namespaces.names(f"alcove-{node.instance}-"):
        if not name.startswith(f"alcove-{node.instance}-p"):
            rules = {each.get("table") for each in _ip(name, "rule", "show")}
            if not rules <= {"local", "main", "default"}:
                yield f"{node.name}: {name} has routing rules {rules}"


def _local_volumes(state: ClusterState, node: RealNode) -> Iterator[str]:
    """Files of volumes belong to volumes on this node; those that no pod here uses are not mounted."""
    here = {
        each["metadata"]["uid"]: each["spec"]["claimRef"]["uid"]
        for each in state.volumes
        if (each["metadata"].get("labels") or {}).get(local_volumes.NODE_LABEL) == node.name
    }
    folder = node.data / "volumes" / "local"
    records = [json.loads(each.read_text()) for each in folder.glob("*.json")]
    for record in records:
        if record["uid"] not in here:
            yield f"{node.name}: files of volume {record['name']}, which is gone"
    names = {each["metadata"]["uid"]: _name(each) for each in state.claims}
    used = {
        f"{pod['metadata']['tenant']}/{pod['metadata']['namespace']}/{each['persistentVolumeClaim']['claimName']}"
        for pod in state.pods
        if pod["spec"].get("nodeName") == node.name
        for each in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in each
    }
    wanted = sum(names.get(claim) in used for claim in here.values())
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    mounted = sum(line.split()[1].startswith(str(folder)) for line in mounts)
    if mounted != wanted:
        yield f"{node.name}: {mounted} volumes are mounted, pods use {wanted}"


def _gateway(state: ClusterState, node: RealNode, namespace: str, vni: int) -> Iterator[str]:
    """Host addresses and host routes of a gateway belong to the node's gateway endpoint and to balancers."""
    on_vni = [each for each in state.endpoints if each["spec"].get("vni") == vni]
    own = {
        each["spec"]["ip"]
        for each in on_vni
        if each["spec"]["type"] == "gateway" and each["spec"].get("droplet") == node.name
    }
    doors = [each["spec"] for each in on_vni if each["spec"]["type"] == "door"]
    entries = {each["ip"] for each in doors if each.get("ip")}
    if any(not each.get("ip") for each in doors):
        entries.add(node.address)  # The network has node ports.
    [link] = _ip(namespace, "address", "show", "dev", "net") or [{}]
    hosts = {
        each["local"]
        for each in link.get("addr_info") or ()
        if each["scope"] == "global"
        and each["prefixlen"] == ipaddress.ip_address(each["local"]).max_prefixlen
    }
    if hosts != own:
        yield f"{node.name}: gateway {namespace} has host addresses {hosts}, its endpoints are {own}"
    for route in _ip(namespace, "route", "show", "dev", "net"):
        target = route["dst"]
        if route.get("protocol") == "static" and "/" not in target and target not in entries:
            yield f"{node.name}: gateway {namespace} has a route to {target}, which no service has"


def _ip(namespace: str, *arguments: str) -> list[Object]:
    return _json(namespace, "ip", "-j", *arguments)


def _json(namespace: str, *command: str) -> list[Object]:
    command = ("nsenter", f"--net={namespaces.path_of(namespace)}", *command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # The namespace may disappear meanwhile.
    found: list[Object] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    return found


def _traces(cluster: RealCluster, gone_uids: set[str]) -> Iterator[str]:
    """What is left of deleted pods: files, mounts, processes and control groups."""
    groups = [
        folder
        for node in cluster.nodes
        for mount in Cgroups.of_machine().mounts
        for folder, _, _ in os.walk(mount.path / "alcove" / node.instance)
    ]
    for node in cluster.nodes:
        links = {each["ifname"] for each in _ip(node.namespace, "link", "show")}
        for uid in gone_uids:
            yield from (f"{node.name}: {each} of a deleted pod" for each in traces(node.data, uid))
            if port_name(node.instance, uid) in links:
                yield f"{node.name}: link of deleted pod {uid}"
    yield from (f"cgroup {each} of a deleted pod" for each in groups if any(uid in each for uid in gone_uids))


# Memory, and the machine


def memory(cluster: RealCluster) -> dict[tuple[str, int], int]:
    """Resident bytes of each process, by its name and pid."""
    running = {
        "apiserver": cluster.server,
        "controllers": cluster.controllers,
        "scheduler": cluster.scheduler,
    }
    pids = {name: each.pid for name, each in running.items()}
    pids |= {f"agent of {name}": each.pid for name, each in cluster.agents.items()}
    found = {}
    for name, pid in pids.items():
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        found[name, pid] = pages * os.sysconf("SC_PAGE_SIZE")
    return found


def growing(samples: list[dict[tuple[str, int], int]]) -> list[str]:
    """Processes that grew in the last half of the samples."""
    half = samples[len(samples) // 2 :]
    found = []
    for key, last in half[-1].items() if half else ():
        first = next(each[key] for each in half if key in each)
        if last > first * MEMORY_FACTOR_MAX + MEMORY_BYTES_MAX:
            found.append(f"{key[0]} grew from {first >> 20} to {last >> 20} MiB")
    return found


def left_on_machine(cluster: RealCluster) -> list[str]:
    """What bears the name of the cluster's nodes or folder after the cluster has been closed."""
    found = [f"process {each}" for each in processes(str(cluster.directory))]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if str(cluster.directory) in line]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if str(cluster.directory) in (path := backing.read_text().strip()):
                found.append(f"loop device of {path}")
    links = {each.name for each in Path("/sys/class/net").iterdir()}
    for node in cluster.nodes:
        found += [f"namespace {each}" for each in namespaces.names(f"alcove-{node.instance}")]
        found += [
            f"link {each}" for each in links if each.startswith((f"alcove-{node.instance}", node.instance))
        ]
        found += [f"BPF pins {each}" for each in BPF_ROOT.glob(f"*{node.instance}*")]
        for mount in Cgroups.of_machine().mounts:
            if (mount.path / "alcove" / node.instance).exists():
                found.append(f"cgroup {mount.path}/alcove/{node.instance}")
    return found
