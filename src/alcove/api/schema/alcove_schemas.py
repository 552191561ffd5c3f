"""The schemas of the kinds beyond stock Kubernetes: tenants, networks and the VPC provider's objects.

Fields are those of Arktos and Mizar, so that manifests written for them apply unchanged. Mizar's
numbers may be written as strings (`prefix: "16"`), as its own manifests do.
"""

from typing import Any

from alcove.api.kinds.core.networks import NETWORK_TYPES

CORE = "io.alcove.core.v1"
ARKTOS = "com.futurewei.arktos.v1"
MIZAR = "com.mizar.v1"

_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY = "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"


def _text(description: str, *choices: str) -> dict[str, Any]:
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def _number(description: str) -> dict[str, Any]:
    """A number that may be written as a string."""
    return {"x-kubernetes-int-or-string": True, "description": description}


def _integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}


def _names(description: str, list_type: str = "atomic") -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": list_type,
        "description": description,
    }


def _record(description: str, fields: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    body = {"type": "object", "description": description, "properties": fields}
    return {**body, "required": list(required)} if required else body


_CONDITIONS = {
    "type": "array",
    "items": {"$ref": f"{_META}.Condition"},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "x-kubernetes-patch-merge-key": "type",
    "x-kubernetes-patch-strategy": "merge",
    "description": "What is known about the object's state, one entry per type.",
}


def _kind(
    description: str, group: str, kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    own = {
        "apiVersion": _text("Version of the schema this object is written in."),
        "kind": _text("Kind of this object."),
        "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Name, labels and the like."},
        "spec": {**spec, "description": "What is wanted."},
        "status": {**status, "description": "What is there."},
    }
    return {
        **_record(description, own),
        "x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": "v1"}],
    }


def _ref(definition: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{definition}"}


_NETWORK_SPEC: dict[str, Any] = {
    "type": _text(
        "How the network is made: `flat` shares one address range, the others have a VPC.",
        *NETWORK_TYPES,
    ),
    "vpcID": _text("VPC the network is mapped to. One that exists is attached to, another is made."),
    "vpc-id": _text("Another spelling of `vpcID`; stored as that."),
    "ip": _text("First address of the range of a VPC to be made; without one, a free range is taken."),
    "prefix": _number("Length of that range's network prefix."),
    "subnets": _names("Subnets of the VPC to be used; without any, `{vpc}-subnet` is made."),
    "service": _record(
        "Where the network's service addresses come from.",
        {
            "ipam": _text("Who allocates them.", "Arktos", "Kubernetes", "External"),
            "cidrs": _names("Ranges they are taken from. They may overlap those of other networks."),
        },
    ),
    "egress": _record(
        "The way out of the network to the world.",
        {
            "enabled": {
                "type": "boolean",
                "description": "Pods may open connections to the outside, behind the node's address.",
            }
        },
    ),
}

_MIZAR_STATUS = _record(
    "What the provider tells about an object.",
    {
        "message": _text("Why the object is in its state, for people."),
        "used": _integer("Addresses in use."),
        "free": _integer("Addresses left."),
        "conditions": _CONDITIONS,
    },
)

_PROVISIONED = {
    "status": _text("Where the provider is with it: Init, Provisioned, Failed, …"),
    "createtime": _text("When the object was made, as Mizar notes it."),
    "provisiondelay": _text("How long provisioning took, as Mizar notes it."),
}
_RANGE = {
    "ip": _text("First address of the range."),
    "prefix": _number("Length of the range's network prefix."),
}
_VNI = {"vni": _number("Number of the virtual network on the wire, 24 bits; allocated if not given.")}
_PLACE = {
    "vpc": _text("VPC it belongs to."),
    "ip": _text("Its address."),
    "mac": _text("Its hardware address."),
    "droplet": _text("Droplet that holds it."),
}

_MIZAR_SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "Vpc": (
        "A virtual private cloud: a range of addresses with a number of its own on the wire.",
        {**_RANGE, **_VNI, "dividers": _number("How many dividers it is to have."), **_PROVISIONED},
    ),
    "Subnet": (
        "A part of a VPC's range.",
        {
            **_RANGE,
            **_VNI,
            "vpc": _text("VPC it is a part of."),
            "bouncers": _number("How many bouncers it is to have."),
            **_PROVISIONED,
        },
    ),
    "Endpoint": (
        "One address of a subnet in use, on one droplet.",
        {
            **_PLACE,
            **_VNI,
            "net": _text("Subnet the address is of."),
            "type": _text("What it stands for: simple, host, scaled, gateway, …"),
            "gw": _text("Gateway of the subnet."),
            "prefix": _number("Length of the subnet's network prefix."),
            "itf": _text("Interface inside the endpoint's network namespace."),
            "veth": _text("Its peer on the droplet."),
            "netns": _text("Network namespace of the endpoint."),
            "hostip": _text("Address of the droplet."),
            "hostmac": _text("Hardware address of the droplet."),
            "pod": _text("What the endpoint was made for."),
            "cnidelay": _text("How long the droplet took to set it up, as Mizar notes it."),
            **_PROVISIONED,
        },
    ),
    "Bouncer": (
        "A droplet's duty to know every endpoint of a subnet.",
        {
            **_PLACE,
            **_VNI,
            "net": _text("Subnet it serves."),
            "nip": _text("First address of the subnet."),
            "prefix": _number("Length of the subnet's network prefix."),
            **_PROVISIONED,
        },
    ),
    "Divider": ("A droplet's duty to know every subnet of a VPC.", {**_PLACE, **_VNI, **_PROVISIONED}),
    "Droplet": (
        "A machine that endpoints are on.",
        {
            "ip": _text("Its address on the underlay."),
            "mac": _text("Its hardware address."),
            "itf": _text("Its interface on the underlay."),
            "main_ip": _text("Address of its main interface."),
            "mainip": _text("The same, as Mizar's columns spell it."),
            **_PROVISIONED,
        },
    ),
}


def _mizar() -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {f"{MIZAR}.Status": _MIZAR_STATUS}
    for kind, (description, spec) in _MIZAR_SPECS.items():
        made[f"{MIZAR}.{kind}Spec"] = _record(description, spec)
        made[f"{MIZAR}.{kind}"] = _kind(
            description, "mizar.com", kind, _ref(f"{MIZAR}.{kind}Spec"), _ref(f"{MIZAR}.Status")
        )
    return made


_TENANT_SPEC = _record(
    "How a tenant is to be served.",
    {
        "storageClusterId": _text("Store the tenant's objects are kept in, where there are several."),
        "controlPlane": _record(
            "The API server that serves the tenant.",
            {
                "mode": _text(
                    "`Shared` with others, or `Dedicated`: one of its own, on a store of its own.",
                    "Shared",
                    "Dedicated",
                )
            },
        ),
        "weight": _integer("Share of the scheduler in comparison with other tenants; 1 if not given."),
        "quota": _record(
            "Limits on everything in the tenant together.",
            {
                "hard": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "Most of each resource, by the names that a ResourceQuota has for them.",
                },
                "min": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "What the scheduler keeps free for the tenant until it uses as much: "
                    "requests.cpu, requests.memory and so on, or pods.",
                },
            },
        ),
        "finalizers": _names("Who must be done before the tenant goes; removed through `/finalize`.", "set"),
    },
)

_TENANT_STATUS = _record(
    "Where a tenant is in its life.",
    {
        "phase": _text("Active, or Terminating once deleted.", "Active", "Terminating"),
        "endpoint": _text("Address of the API server that serves the tenant."),
        "quota": _record(
            "How far the tenant's quota is used; only the API server says so.",
            {
                "used": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "What is used of each limited resource.",
                }
            },
        ),
        "conditions": _CONDITIONS,
    },
)

_NETWORK_STATUS = _record(
    "Where a network is in its life.",
    {
        "phase": _text(
            "Whether pods can be attached.", "Pending", "Ready", "Failed", "Terminating", "Unknown"
        ),
        "message": _text("Why it is in this phase, for people."),
        "dnsServiceIP": _text("Address of the network's DNS service."),
        "vpc": _text("VPC that its addresses are of."),
        "vni": _integer("Its number on the wire."),
        "cidr": _text("Range that its addresses are of."),
        "subnets": _names("Subnets that pods get addresses from, the first with room first."),
        "serviceCIDRs": _names("Ranges that its services get addresses from."),
        "conditions": _CONDITIONS,
    },
)

_TENANT = "A space of API objects of its own, isolated from every other tenant."
_NETWORK = "An isolation domain of a tenant: pods talk only within their network."

DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{CORE}.Nic": _record(
        "One attachment of a pod to its network.",
        {
            "name": _text("Name of the attachment."),
            "subnet": _text("Subnet to take the address from."),
            "ip": _text("Address wanted; without one, a free one of the subnet."),
        },
    ),
    f"{CORE}.TenantSpec": _TENANT_SPEC,
    f"{CORE}.TenantStatus": _TENANT_STATUS,
    f"{CORE}.Tenant": _kind(_TENANT, "", "Tenant", _ref(f"{CORE}.TenantSpec"), _ref(f"{CORE}.TenantStatus")),
    f"{CORE}.Network": _kind(
        _NETWORK, "", "Network", _ref(f"{ARKTOS}.NetworkSpec"), _ref(f"{ARKTOS}.NetworkStatus")
    ),
    f"{ARKTOS}.NetworkSpec": _record(_NETWORK, _NETWORK_SPEC, ("type",)),
    f"{ARKTOS}.NetworkStatus": _NETWORK_STATUS,
    f"{ARKTOS}.Network": _kind(
        _NETWORK,
        "arktos.futurewei.com",
        "Network",
        _ref(f"{ARKTOS}.NetworkSpec"),
        _ref(f"{ARKTOS}.NetworkStatus"),
    ),
    **_mizar(),
}
"""Every definition by name, as OpenAPI tells it."""
