"""What a stock API server has to have before Alcove's controllers can work on it: the kind Network, and one network."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from alcove.api import local_volumes
from alcove.api.addresses import Network
from alcove.api.kinds.core.networks import DEFAULT_NETWORK, NETWORK_TYPES
from alcove.api.objects import Object
from alcove.api.service_ips import EXTERNAL
from alcove.client.resources import NETWORKS

POD_RANGES: tuple[Network, ...] = (
    ipaddress.ip_network("10.128.0.0/16"),
    ipaddress.ip_network("172.20.0.0/16"),
    ipaddress.ip_network("192.168.0.0/16"),
)
"""The first that does not overlap the plane's services is the range of its default network. Other tenants may use it, too."""
CRD_NAME = f"{NETWORKS.resource}.{NETWORKS.group}"


def pod_range(services: Sequence[Network]) -> Network | None:
    """None if the services leave none of the ranges free."""
    return next(
        (
            each
            for each in POD_RANGES
            if not any(each.version == other.version and each.overlaps(other) for other in services)
        ),
        None,
    )


def network_crd(services: Sequence[Network]) -> Object:
    """Services get their addresses from the plane's API server: networks have its ranges by default."""
    service = {
        "type": "object",
        "default": {"ipam": EXTERNAL, "cidrs": [str(each) for each in services]},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    spec = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string", "enum": list(NETWORK_TYPES)}, "service": service},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    columns = [("Type", ".spec.type"), ("VPC", ".status.vpc"), ("Phase", ".status.phase")]
    version = {
        "name": NETWORKS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": "string", "jsonPath": path} for name, path in columns
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": NETWORKS.group,
            "scope": "Cluster",
            "names": {
                "plural": NETWORKS.resource,
                "singular": "network",
                "kind": NETWORKS.kind,
                "shortNames": ["net"],
            },
            "versions": [version],
        },
    }


def default_network(pods: Network) -> Object:
    return {
        "apiVersion": NETWORKS.api_version,
        "kind": NETWORKS.kind,
        "metadata": {"name": DEFAULT_NETWORK},
        "spec": {"type": "vpc", "ip": str(pods.network_address), "prefix": pods.prefixlen},
    }


def storage_class() -> Object:
    """Not the default class: the plane may have one."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": local_volumes.STORAGE_CLASS},
        "provisioner": local_volumes.PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
