"""The cluster roles and bindings of ring0's components, in the system tenant only.

They apply in every tenant, as all of ring0's cluster-wide grants do.
"""

from alcove.apiserver.rbac.roletables import READ, RoleRow, cluster_role, cluster_role_binding

_REVIEWS = (
    RoleRow("create", "authentication.k8s.io", "tokenreviews"),
    RoleRow("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
)
_EVENTS = (RoleRow("create patch update", "core events.k8s.io", "events"),)

# Access of a node to its pods and to its own objects is decided by `rbac/nodes.py`, not by a role.
_NODE = (
    *_REVIEWS,
    RoleRow(READ, "core", "tenants"),
    RoleRow(READ, "mizar.com", "bouncers dividers droplets endpoints subnets vpcs"),
    RoleRow("create", "certificates.k8s.io", "certificatesigningrequests"),
)

_SCHEDULER = (
    *_REVIEWS,
    *_EVENTS,
    RoleRow("create", "coordination.k8s.io", "leases"),
    RoleRow("get list update watch", "coordination.k8s.io", "leases", names="kube-scheduler"),
    RoleRow(READ, "core", "namespaces nodes replicationcontrollers services tenants"),
    RoleRow(f"{READ} delete", "core", "pods"),
    RoleRow("create", "core", "bindings pods/binding"),
    RoleRow("patch update", "core", "pods/status"),
    RoleRow(f"{READ} patch update", "core", "persistentvolumeclaims persistentvolumes"),
    RoleRow(READ, "apps", "replicasets statefulsets"),
    RoleRow(READ, "policy", "poddisruptionbudgets"),
    RoleRow(READ, "scheduling.k8s.io", "priorityclasses"),
    RoleRow(
        READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"
    ),
)

# Controllers create, change and delete objects of every kind, including custom resources, and create the
# roles of new tenants. They cannot impersonate users, or use non-resource URLs other than those of discovery.
_CONTROLLERS = (
    RoleRow(f"{READ} create delete deletecollection patch update", "*", "*"),
    RoleRow("bind escalate", "rbac.authorization.k8s.io", "clusterroles roles"),
    RoleRow("approve sign", "certificates.k8s.io", "signers"),
)

_MONITORING = (
    RoleRow("get", urls="/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
    RoleRow("get", "core", "nodes/metrics"),
)


def _request(subresource: str) -> tuple[RoleRow, ...]:
    return (RoleRow("create", "certificates.k8s.io", f"certificatesigningrequests/{subresource}"),)


def _approver(signer: str) -> tuple[RoleRow, ...]:
    return (RoleRow("approve", "certificates.k8s.io", "signers", names=f"kubernetes.io/{signer}"),)


_CERTIFICATES = "system:certificates.k8s.io"

CLUSTER_ROLES = (
    cluster_role("system:node", _NODE),
    cluster_role("system:kube-scheduler", _SCHEDULER),
    cluster_role("system:kube-controller-manager", _CONTROLLERS),
    cluster_role("system:monitoring", _MONITORING),
    cluster_role(
        "system:kubelet-api-admin",
        [
            RoleRow(f"{READ} proxy", "core", "nodes"),
            RoleRow(
                "*",
                "core",
                "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats",
            ),
        ],
    ),
    cluster_role(
        "system:node-bootstrapper",
        [RoleRow("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    cluster_role(f"{_CERTIFICATES}:certificatesigningrequests:nodeclient", _request("nodeclient")),
    cluster_role(f"{_CERTIFICATES}:certificatesigningrequests:selfnodeclient", _request("selfnodeclient")),
    cluster_role(
        f"{_CERTIFICATES}:kube-apiserver-client-kubelet-approver", _approver("kube-apiserver-client-kubelet")
    ),
    cluster_role(f"{_CERTIFICATES}:kubelet-serving-approver", _approver("kubelet-serving")),
)

CLUSTER_ROLE_BINDINGS = (
    cluster_role_binding("system:node", ("Group", "system:nodes")),
    cluster_role_binding("system:kube-scheduler", ("User", "system:kube-scheduler")),
    cluster_role_binding("system:kube-controller-manager", ("User", "system:kube-controller-manager")),
    cluster_role_binding("system:monitoring", ("Group", "system:monitoring")),
    cluster_role_binding(
        f"{_CERTIFICATES}:certificatesigningrequests:selfnodeclient", ("Group", "system:nodes")
    ),
)
