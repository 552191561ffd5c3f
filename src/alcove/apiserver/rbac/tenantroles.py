"""The cluster roles and bindings that every tenant has, including ring0."""

from alcove.apiserver.rbac.roletables import (
    READ,
    READ_WRITE,
    WRITE,
    RoleRow,
    cluster_role,
    cluster_role_binding,
)

_PUBLIC_URLS = "/healthz /livez /readyz /version /version/"
_ISSUER_URLS = (
    "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"
)

_VIEW = (
    RoleRow(READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"),
    RoleRow(
        READ,
        "core",
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    RoleRow(READ, "core", "bindings limitranges namespaces/status pods/log pods/status"),
    RoleRow(READ, "core", "replicationcontrollers/status resourcequotas resourcequotas/status"),
    RoleRow(READ, "core", "namespaces"),
    RoleRow(READ, "core events.k8s.io", "events"),
    RoleRow(READ, "core arktos.futurewei.com", "networks networks/status"),
    RoleRow(READ, "discovery.k8s.io", "endpointslices"),
    RoleRow(READ, "apps", "controllerrevisions daemonsets daemonsets/status"),
    RoleRow(READ, "apps", "deployments deployments/scale deployments/status"),
    RoleRow(READ, "apps", "replicasets replicasets/scale replicasets/status"),
    RoleRow(READ, "apps", "statefulsets statefulsets/scale statefulsets/status"),
    RoleRow(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    RoleRow(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    RoleRow(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    RoleRow(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    RoleRow(READ, "metrics.k8s.io", "nodes pods"),
    RoleRow("list watch", "sight.alcove.io", "flows"),
    RoleRow("list", "sight.alcove.io", "tenantusages"),
)

_EDIT = (
    RoleRow(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    RoleRow("impersonate", "core", "serviceaccounts"),
    RoleRow(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    RoleRow("create", "core", "pods/eviction"),
    RoleRow(
        WRITE, "core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"
    ),
    RoleRow(WRITE, "core", "secrets serviceaccounts services services/proxy"),
    RoleRow("create", "core", "serviceaccounts/token"),
    RoleRow(WRITE, "core events.k8s.io", "events"),
    RoleRow(WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale"),
    RoleRow(WRITE, "apps", "replicasets replicasets/scale statefulsets statefulsets/scale"),
    RoleRow(WRITE, "autoscaling", "horizontalpodautoscalers"),
    RoleRow("create", "sight.alcove.io", "captures traces"),
    RoleRow(WRITE, "batch", "cronjobs jobs"),
    RoleRow(WRITE, "policy", "poddisruptionbudgets"),
    RoleRow(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    RoleRow(READ_WRITE, "coordination.k8s.io", "leases"),
)

_ADMIN = (
    RoleRow("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    RoleRow(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
)

EVERYTHING = (RoleRow("*", "*", "*"), RoleRow("*", urls="*"))

CLUSTER_ROLES = (
    cluster_role("cluster-admin", EVERYTHING),
    cluster_role("admin", aggregates="admin"),
    cluster_role("edit", aggregates="edit", aggregate_to="admin"),
    cluster_role("view", aggregates="view", aggregate_to="edit"),
    cluster_role("system:aggregate-to-admin", _ADMIN, aggregate_to="admin"),
    cluster_role("system:aggregate-to-edit", _EDIT, aggregate_to="edit"),
    cluster_role("system:aggregate-to-view", _VIEW, aggregate_to="view"),
    cluster_role(
        "system:discovery",
        [RoleRow("get", urls=f"/api /api/* /apis /apis/* /openapi /openapi/* {_PUBLIC_URLS}")],
    ),
    cluster_role("system:public-info-viewer", [RoleRow("get", urls=_PUBLIC_URLS)]),
    cluster_role(
        "system:basic-user",
        [
            RoleRow("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            RoleRow("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    cluster_role(
        "system:auth-delegator",
        [
            RoleRow("create", "authentication.k8s.io", "tokenreviews"),
            RoleRow("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    cluster_role("system:service-account-issuer-discovery", [RoleRow("get", urls=_ISSUER_URLS)]),
    cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        [RoleRow("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kube-apiserver-client")],
    ),
)

CLUSTER_ROLE_BINDINGS = (
    cluster_role_binding("cluster-admin", ("Group", "system:masters")),
    cluster_role_binding("system:discovery", ("Group", "system:authenticated")),
    cluster_role_binding("system:basic-user", ("Group", "system:authenticated")),
    cluster_role_binding("system:public-info-viewer", ("Group", "system:authenticated")),
    cluster_role_binding("system:service-account-issuer-discovery", ("Group", "system:serviceaccounts")),
)
