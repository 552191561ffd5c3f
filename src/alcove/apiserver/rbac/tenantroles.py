"""The cluster roles and bindings that every tenant has, ring0 too."""

from alcove.apiserver.rbac.roletables import (
    READ,
    READ_WRITE,
    WRITE,
    Line,
    cluster_role,
    cluster_role_binding,
)

_PUBLIC_URLS = "/healthz /livez /readyz /version /version/"
_ISSUER_URLS = (
    "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"
)

_VIEW = (
    Line(READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"),
    Line(
        READ,
        "core",
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    Line(READ, "core", "bindings limitranges namespaces/status pods/log pods/status"),
    Line(READ, "core", "replicationcontrollers/status resourcequotas resourcequotas/status"),
    Line(READ, "core", "namespaces"),
    Line(READ, "core events.k8s.io", "events"),
    Line(READ, "core arktos.futurewei.com", "networks networks/status"),
    Line(READ, "discovery.k8s.io", "endpointslices"),
    Line(READ, "apps", "controllerrevisions daemonsets daemonsets/status"),
    Line(READ, "apps", "deployments deployments/scale deployments/status"),
    Line(READ, "apps", "replicasets replicasets/scale replicasets/status"),
    Line(READ, "apps", "statefulsets statefulsets/scale statefulsets/status"),
    Line(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    Line(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    Line(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    Line(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    Line(READ, "metrics.k8s.io", "nodes pods"),
)

_EDIT = (
    Line(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    Line("impersonate", "core", "serviceaccounts"),
    Line(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    Line("create", "core", "pods/eviction"),
    Line(
        WRITE, "core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale"
    ),
    Line(WRITE, "core", "secrets serviceaccounts services services/proxy"),
    Line("create", "core", "serviceaccounts/token"),
    Line(WRITE, "core events.k8s.io", "events"),
    Line(WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale"),
    Line(WRITE, "apps", "replicasets replicasets/scale statefulsets statefulsets/scale"),
    Line(WRITE, "autoscaling", "horizontalpodautoscalers"),
    Line(WRITE, "batch", "cronjobs jobs"),
    Line(WRITE, "policy", "poddisruptionbudgets"),
    Line(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    Line(READ_WRITE, "coordination.k8s.io", "leases"),
)

_ADMIN = (
    Line("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    Line(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
)

EVERYTHING = (Line("*", "*", "*"), Line("*", urls="*"))

CLUSTER_ROLES = (
    cluster_role("cluster-admin", EVERYTHING),
    cluster_role("admin", gathers="admin"),
    cluster_role("edit", gathers="edit", joins="admin"),
    cluster_role("view", gathers="view", joins="edit"),
    cluster_role("system:aggregate-to-admin", _ADMIN, joins="admin"),
    cluster_role("system:aggregate-to-edit", _EDIT, joins="edit"),
    cluster_role("system:aggregate-to-view", _VIEW, joins="view"),
    cluster_role(
        "system:discovery",
        [Line("get", urls=f"/api /api/* /apis /apis/* /openapi /openapi/* {_PUBLIC_URLS}")],
    ),
    cluster_role("system:public-info-viewer", [Line("get", urls=_PUBLIC_URLS)]),
    cluster_role(
        "system:basic-user",
        [
            Line("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            Line("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    cluster_role(
        "system:auth-delegator",
        [
            Line("create", "authentication.k8s.io", "tokenreviews"),
            Line("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    cluster_role("system:service-account-issuer-discovery", [Line("get", urls=_ISSUER_URLS)]),
    cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        [Line("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kube-apiserver-client")],
    ),
)

CLUSTER_ROLE_BINDINGS = (
    cluster_role_binding("cluster-admin", ("Group", "system:masters")),
    cluster_role_binding("system:discovery", ("Group", "system:authenticated")),
    cluster_role_binding("system:basic-user", ("Group", "system:authenticated")),
    cluster_role_binding("system:public-info-viewer", ("Group", "system:authenticated")),
    cluster_role_binding("system:service-account-issuer-discovery", ("Group", "system:serviceaccounts")),
)
