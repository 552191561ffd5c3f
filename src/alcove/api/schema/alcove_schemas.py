"""The schemas of the kinds beyond stock Kubernetes: tenants, networks and the VPC provider's objects.

Fields are those of Arktos and Mizar, so that manifests written for them apply unchanged. Mizar's numbers may
be written as strings (`prefix: "16"`), as in Mizar's own manifests.
"""

from typing import Any

from alcove.api.kinds.core.networks import NETWORK_TYPES
from alcove.api.schema.records import CONDITIONS as _CONDITIONS
from alcove.api.schema.records import QUANTITY as _QUANTITY
from alcove.api.schema.records import integer as _integer
from alcove.api.schema.records import kind as _kind
from alcove.api.schema.records import names as _names
from alcove.api.schema.records import number as _number
from alcove.api.schema.records import record as _record
from alcove.api.schema.records import ref as _ref
from alcove.api.schema.records import text as _text

CORE = "io.alcove.core.v1"
ARKTOS = "com.futurewei.arktos.v1"
MIZAR = "com.mizar.v1"

_NETWORK_SPEC: dict[str, Any] = {
    "type": _text(
        "Type of the network: `flat` shares one address range, the other types use a VPC.",
        *NETWORK_TYPES,
    ),
    "vpcID": _text("VPC of the network. An existing VPC is used; otherwise it is created."),
    "vpc-id": _text("Another spelling of `vpcID`; stored as that."),
    "ip": _text("First address of the range of a VPC to be created; allocated if not set."),
    "prefix": _number("Prefix length of that range."),
    "subnets": _names("Subnets of the VPC to use; if not set, `{vpc}-subnet` is created."),
    "service": _record(
        "Allocation of the network's service addresses.",
        {
            "ipam": _text("Allocator of service addresses.", "Arktos", "Kubernetes", "External"),
            "cidrs": _names("Ranges of service addresses. They may overlap those of other networks."),
        },
    ),
    "egress": _record(
        "Access from the network to external addresses.",
        {
            "enabled": {
                "type": "boolean",
                "description": "Pods may connect to external addresses, with source NAT to the node's address; to those "
                "that are not public only as ring0 allows the tenant.",
            }
        },
    ),
}

_MIZAR_STATUS = _record(
    "Observed state of an object of the VPC provider.",
    {
        "message": _text("Human-readable reason for the object's state."),
        "used": _integer("Addresses in use."),
        "free": _integer("Available addresses."),
        "conditions": _CONDITIONS,
    },
)

_PROVISIONED = {
    "status": _text("Provisioning state: Init, Provisioned, Failed, …"),
    "createtime": _text("Creation time, in Mizar's format."),
    "provisiondelay": _text("Duration of provisioning, in Mizar's format."),
}
_RANGE = {
    "ip": _text("First address of the range."),
    "prefix": _number("Prefix length of the range."),
}
_VNI = {"vni": _number("Virtual network identifier (VNI), 24 bits; allocated if not set.")}
_DROPLET = {
    "vpc": _text("VPC of the object."),
    "ip": _text("IP address."),
    "mac": _text("MAC address."),
    "droplet": _text("Droplet of the object."),
}

_MIZAR_SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "Vpc": (
        "A virtual private cloud: a range of addresses with its own VNI.",
        {**_RANGE, **_VNI, "dividers": _number("Desired number of dividers."), **_PROVISIONED},
    ),
    "Subnet": (
        "A part of a VPC's range.",
        {
            **_RANGE,
            **_VNI,
            "vpc": _text("VPC of the subnet."),
            "bouncers": _number("Desired number of bouncers."),
            **_PROVISIONED,
        },
    ),
    "Endpoint": (
        "An allocated address of a subnet, on one droplet.",
        {
            **_DROPLET,
            **_VNI,
            "net": _text("Subnet of the address."),
            "type": _text("Type of the endpoint: simple, host, scaled, gateway, …"),
            "gw": _text("Gateway of the subnet."),
            "prefix": _number("Prefix length of the subnet."),
            "itf": _text("Interface inside the endpoint's network namespace."),
            "veth": _text("Its peer on the droplet."),
            "netns": _text("Network namespace of the endpoint."),
            "hostip": _text("Address of the droplet."),
            "hostmac": _text("MAC address of the droplet."),
            "pod": _text("Owner of the endpoint."),
            "cnidelay": _text("Duration of the setup on the droplet, in Mizar's format."),
            **_PROVISIONED,
        },
    ),
    "Bouncer": (
        "Assignment of a subnet to a droplet that knows all its endpoints.",
        {
            **_DROPLET,
            **_VNI,
            "net": _text("Subnet of the bouncer."),
            "nip": _text("First address of the subnet."),
            "prefix": _number("Prefix length of the subnet."),
            **_PROVISIONED,
        },
    ),
    "Divider": (
        "Assignment of a VPC to a droplet that knows all its subnets.",
        {**_DROPLET, **_VNI, **_PROVISIONED},
    ),
    "Droplet": (
        "A machine that hosts endpoints.",
        {
            "ip": _text("IP address on the underlay."),
            "mac": _text("MAC address."),
            "itf": _text("Interface on the underlay."),
            "main_ip": _text("IP address of the main interface."),
            "mainip": _text("Alias of `main_ip`, used by Mizar's columns."),
            **_PROVISIONED,
        },
    ),
}


def _mizar() -> dict[str, dict[str, Any]]:
    definitions: dict[str, dict[str, Any]] = {f"{MIZAR}.Status": _MIZAR_STATUS}
    for kind, (description, spec) in _MIZAR_SPECS.items():
        definitions[f"{MIZAR}.{kind}Spec"] = _record(description, spec)
        definitions[f"{MIZAR}.{kind}"] = _kind(
            description, "mizar.com", kind, _ref(f"{MIZAR}.{kind}Spec"), _ref(f"{MIZAR}.Status")
        )
    return definitions


_AMOUNTS = {"type": "object", "additionalProperties": {"$ref": _QUANTITY}}

_CONTROL_PLANE = _record(
    "The API server that serves the tenant. The other fields are for the mode `Dedicated`.",
    {
        "mode": _text(
            "`Shared` with other tenants; `Dedicated`: a separate API server and store; or `Foreign`: an API server that "
            "ring0 does not run (`alcove plane join`).",
            "Shared",
            "Dedicated",
            "Foreign",
        ),
        "replicas": _integer(
            "Number of API servers, 1 to 3; default 1. More than one need a store of type etcd."
        ),
        "version": _text("Version of the API server; default: that of the controllers."),
        "storage": _record(
            "The volume of the store.",
            {
                "size": {
                    "$ref": _QUANTITY,
                    "description": "Size of the volume; default 1Gi. Read at its creation.",
                },
                "type": _text(
                    "Type of the store: `sqlite`, the default, in the API server; or `etcd`, in a pod of its own.",
                    "etcd",
                    "sqlite",
                ),
            },
        ),
        "resources": _record(
            "CPU and memory of the API server's container.",
            {
                "requests": {**_AMOUNTS, "description": "Reserved amounts; default 100m of CPU and 128Mi."},
                "limits": {**_AMOUNTS, "description": "Limits; default 1Gi of memory."},
            },
        ),
        "runtimeClassName": _text("RuntimeClass of the API server's pod, of ring0."),
        "certificateSANs": _names("Further names and addresses in the serving certificate.", "set"),
        "users": {
            "type": "array",
            "items": _record(
                "A user of the tenant.",
                {
                    "name": _text("Name of the user."),
                    "groups": _names("Groups of the user.", "set"),
                },
                ("name",),
            ),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "description": "Users that get a kubeconfig, in a Secret of ring0; default: `admin`.",
        },
    },
)

_TENANT_SPEC = _record(
    "Desired state of a tenant.",
    {
        "storageClusterId": _text("Store of the tenant's objects, if there are several."),
        "controlPlane": _CONTROL_PLANE,
        "weight": _integer("Relative share of scheduling capacity compared to other tenants; default 1."),
        "quota": _record(
            "Limits on the sum of all objects in the tenant.",
            {
                "hard": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "Limit of each resource, with the resource names of ResourceQuota.",
                },
                "min": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "Resources that the scheduler reserves for the tenant until it uses as much: "
                    "requests.cpu, requests.memory and so on, or pods.",
                },
            },
        ),
        "sleep": _record(
            "When the tenant sleeps: its pods end and are not scheduled until it wakes; its other objects stay.",
            {
                "asleep": {
                    "type": "boolean",
                    "description": "Whether the tenant sleeps until this is unset, whatever the other fields say.",
                },
                "wakeTime": {
                    **_text("A time at which the tenant wakes, until another field puts it to sleep again."),
                    "format": "date-time",
                },
                "afterInactivity": _text(
                    "How long after the last request of its users the tenant falls asleep, for example `2h30m`; at "
                    "least `1m`. The next request wakes it."
                ),
                "schedule": _record(
                    "Times at which the tenant falls asleep and wakes.",
                    {
                        "sleep": _text("When it falls asleep, as a cron expression such as `0 20 * * 1-5`."),
                        "wake": _text("When it wakes, as a cron expression."),
                        "timeZone": _text("Time zone of both, for example `Europe/Berlin`; default UTC."),
                    },
                    ("sleep",),
                ),
            },
        ),
        "backup": _record(
            "Backups of the tenant's objects that ring0's controllers make.",
            {
                "schedule": _text("When, as a cron expression such as `0 3 * * *`."),
                "timeZone": _text("Time zone of the schedule, for example `Europe/Berlin`; default UTC."),
                "keep": _integer("How many are kept; older ones are removed. Default 7."),
                "to": _text(
                    "Where they are kept: `s3://BUCKET/PREFIX`, or a folder of the machine that the controllers run on."
                ),
                "volumes": {
                    "type": "boolean",
                    "description": "Whether the files in volumes are saved too. While the tenant is asleep they cannot be read.",
                },
                "secretName": _text(
                    "Secret in ring0's namespace `kube-system` with the environment of the S3 client "
                    "(`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`), and `passphrase` if "
                    "backups are to be encrypted."
                ),
            },
            ("to",),
        ),
        "backupBeforeDelete": {
            "type": "boolean",
            "description": "Whether nothing of a deleted tenant is removed before its objects are saved, to `spec.backup.to`.",
        },
        "egress": _record(
            "External addresses that the tenant's pods may reach, in networks that have egress.",
            {
                "allowedCIDRs": _names(
                    "Networks within private, shared and other ranges that are not public. Those ranges are "
                    "denied otherwise; public addresses are always allowed, addresses of nodes never.",
                    "set",
                )
            },
        ),
        "domains": _names(
            "Host names that the tenant's Ingresses may serve: exact names, or wildcards such as "
            "`*.acme.example` for all names under a domain.",
            "set",
        ),
        "podSecurity": _text(
            "The least strict Pod Security level of the tenant's pods; if not set, that of the API server's flag "
            "`--pod-security-ceiling`.",
            "privileged",
            "baseline",
            "restricted",
        ),
        "daemonSets": {
            "type": "boolean",
            "description": "Whether the tenant may create DaemonSets, which run a pod on every node.",
        },
        "revokedCertificates": {
            "type": "array",
            "items": _record(
                "Client certificates that are no longer accepted.",
                {
                    "user": _text("The user whose certificates are revoked; if not set, every user's."),
                    "issuedBefore": {
                        **_text("Certificates that were issued before this time are revoked."),
                        "format": "date-time",
                    },
                    "serialNumber": _text(
                        "Serial number of one certificate, in hexadecimal digits, instead of the other fields."
                    ),
                },
            ),
            "x-kubernetes-list-type": "atomic",
            "description": "Client certificates of the tenant's users that are no longer accepted.",
        },
        "finalizers": _names(
            "Finalizers that block deletion of the tenant; removed through `/finalize`.", "set"
        ),
    },
)

_TENANT_STATUS = _record(
    "Observed state of a tenant.",
    {
        "phase": _text("Lifecycle phase of the tenant.", "Active", "Terminating"),
        "endpoint": _text("Address of the API server that serves the tenant."),
        "lastActivityTime": {
            **_text("Last request of the tenant's users, to a tenth of `spec.sleep.afterInactivity`."),
            "format": "date-time",
        },
        "backup": _record(
            "What came of the tenant's backups.",
            {
                "lastScheduleTime": {**_text("When a backup was last due and made."), "format": "date-time"},
                "lastSuccessTime": {**_text("When the last backup was complete."), "format": "date-time"},
                "lastBackup": _text("Where the last backup is."),
                "lastFailureTime": {**_text("When a backup failed last."), "format": "date-time"},
                "lastFailureMessage": _text("Why a backup failed last."),
                "beforeDelete": _text("Where the backup is that was made before the tenant's deletion."),
            },
        ),
        "controlPlane": _record(
            "Observed state of the API server that serves the tenant.",
            {
                "mode": _text(
                    "Which API server serves the tenant, if it has ever moved. Other than `spec.controlPlane.mode` while it moves.",
                    "Shared",
                    "Dedicated",
                ),
                "serviceAccountKeys": _text(
                    "Public keys, in PEM, of service account tokens that a dedicated API server has issued before the tenant moved."
                ),
                "certificateAuthority": _text(
                    "Certificates, in PEM, by which clients verify the API server: of the current authority, and of the "
                    "one before until it expires."
                ),
                "endpoints": _names("Addresses of the API servers that are ready, if there may be several."),
                "version": _text("Version of the API server that runs; if several run, the oldest one."),
                "lastError": _text("Why the API server is not ready; empty if it is."),
                "lastRequestTime": {
                    **_text(
                        "Last request to the API server at the home plane's address while the tenant is asleep."
                    ),
                    "format": "date-time",
                },
            },
        ),
        "quota": _record(
            "Quota usage of the tenant; written only by the API server.",
            {
                "used": {
                    "type": "object",
                    "additionalProperties": {"$ref": _QUANTITY},
                    "description": "Used amount of each limited resource.",
                }
            },
        ),
        "conditions": _CONDITIONS,
    },
)

_NETWORK_STATUS = _record(
    "Observed state of a network.",
    {
        "phase": _text(
            "Whether pods can be attached.", "Pending", "Ready", "Failed", "Terminating", "Unknown"
        ),
        "message": _text("Human-readable reason for the phase."),
        "dnsServiceIP": _text("Address of the network's DNS service."),
        "vpc": _text("VPC of the network."),
        "vni": _integer("Virtual network identifier (VNI)."),
        "cidr": _text("Range of the network's addresses."),
        "subnets": _names("Subnets for pod addresses; the first with free addresses is used."),
        "serviceCIDRs": _names("Ranges of service addresses."),
        "conditions": _CONDITIONS,
    },
)

_TENANT = "An isolated set of API objects: namespaces, RBAC, CRDs and networks."
_NETWORK = "An isolation domain of a tenant: pods communicate only within their network."

DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{CORE}.Nic": _record(
        "One attachment of a pod to its network.",
        {
            "name": _text("Name of the attachment."),
            "subnet": _text("Subnet to allocate the address from."),
            "ip": _text("Requested address; allocated from the subnet if not set."),
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
"""Every definition by name, as published in OpenAPI."""
