"""Checks that a stock API server can be a plane, makes it ready to be one, and removes what ring0 has left there. Safe to repeat."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from alcove.api import meta, objects
from alcove.api.errors import NotFound
from alcove.cli.errors import CliError
from alcove.cli.foreign import manifests
from alcove.cli.session import wait_for

if TYPE_CHECKING:
    from alcove.api.addresses import Network
    from alcove.api.objects import Object
    from alcove.cli.connection import CliConnection

VERSION_MIN = (1, 33)
"""The first version with ServiceCIDRs, which say where services have their addresses."""
OWN_PROCESSES = ("kube-controller-manager", "kube-scheduler")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/api/v1/nodes"
AGENT_VERSION = "+alcove"
"""The end of an agent's version, as its Nodes have it."""
FINALIZER = "arktos.futurewei.com/network"
"""Of Networks, by the network controller."""
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SERVICE_CIDR = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_NUMBER = re.compile(r"\d{1,4}")


def check_version(version: Mapping[str, Any]) -> None:
    """Raises CliError if the server's answer to /version is that of one that is too old."""
    numbers = [_NUMBER.match(str(version.get(part, ""))) for part in ("major", "minor")]
    if None in numbers:
        raise CliError("the server does not say which version of Kubernetes it is")
    if tuple(int(number[0]) for number in numbers if number) < VERSION_MIN:
        oldest = ".".join(map(str, VERSION_MIN))
        raise CliError(f"the server is Kubernetes {version.get('gitVersion')}; {oldest} or newer is required")


def check_rights(connection: CliConnection) -> None:
    """Raises CliError if the credential is not an administrator's."""
    attributes = {"verb": "*", "group": "*", "resource": "*"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = connection.request("POST", REVIEWS, review)
    if objects.get(answer, "status", "allowed") is not True:
        message = "its user may not do everything on that server: use one that is bound to cluster-admin"
        raise CliError(message)


def check_own_processes(connection: CliConnection, now: float) -> None:
    """Raises CliError if controllers or a scheduler of the plane's own are running: they would work against ours."""
    for name in OWN_PROCESSES:
        lease = _find(connection, f"{LEASES}/{name}")
        spec = (lease or {}).get("spec") or {}
        seconds = spec.get("leaseDurationSeconds") or 0
        renewed = spec.get("renewTime")
        if spec.get("holderIdentity") and renewed and now < meta.parse_time(renewed) + seconds:
            raise CliError(
                f"a {name} is running on that server (Lease kube-system/{name}): stop it first, Alcove's takes its place"
            )


def service_ranges(connection: CliConnection) -> list[Network]:
    """The ranges of IPv4 from which the server gives services their addresses. Raises CliError."""
    cidrs = objects.get(connection.request("GET", SERVICE_CIDR), "spec", "cidrs", default=[])
    ranges = [ipaddress.ip_network(cidr) for cidr in cidrs]
    found: list[Network] = [each for each in ranges if each.version == 4]
    if not found:
        raise CliError("the server gives services no addresses of IPv4")
    return found


def prepare(connection: CliConnection, seconds_max: float) -> None:
    """Checks the server, and creates what it lacks. Raises CliError, ApiError and ConnectionFailed."""
    check_version(connection.request("GET", "/version"))
    check_rights(connection)
    check_own_processes(connection, time.time())
    services = service_ranges(connection)
    pods = manifests.pod_range(services)
    if pods is None:
        raise CliError(f"no range is left for pods beside that of services ({services[0]})")
    _ensure(connection, CRDS, manifests.network_crd(services))

    def established() -> bool | None:
        crd = connection.request("GET", f"{CRDS}/{manifests.CRD_NAME}")
        conditions = objects.get(crd, "status", "conditions", default=[])
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions) or None

    wait_for("the kind Network to be served", established, seconds_max)
    _ensure(connection, NETWORKS, manifests.default_network(pods))
    _ensure(connection, STORAGE_CLASSES, manifests.storage_class())


def clean_up(connection: CliConnection, nodes: Collection[str]) -> None:
    """Deletes the Nodes with these names that agents have made, and lets Networks be deleted: nobody releases them any more."""
    for node in connection.request("GET", NODES)["items"]:
        version = objects.get(node, "status", "nodeInfo", "kubeletVersion", default="")
        if objects.name(node) in nodes and version.endswith(AGENT_VERSION):
            connection.request("DELETE", f"{NODES}/{objects.name(node)}")
    for network in connection.request("GET", NETWORKS)["items"]:
        before = network["metadata"].get("finalizers") or []
        after = [each for each in before if each != FINALIZER]
        if after != before:
            connection.request(
                "PUT",
                f"{NETWORKS}/{objects.name(network)}",
                {**network, "metadata": {**network["metadata"], "finalizers": after}},
            )


def _find(connection: CliConnection, path: str) -> Object | None:
    try:
        found: Object = connection.request("GET", path)
    except NotFound:
        return None
    return found


def _ensure(connection: CliConnection, collection: str, obj: Object) -> None:
    if _find(connection, f"{collection}/{objects.name(obj)}") is None:
        connection.request("POST", collection, obj)
