"""The registry of stock kinds: every resource served to all tenants, in discovery's order of preference.

The tables below are the only definition of names, scopes, verbs and subresources; schemas come from
`api/schema`, behaviour from `api/kinds`, columns from `api/columns`. CRDs add kinds at run time. Importing
this module compiles nothing; `load()` compiles the schemas, once per process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from alcove.api.columns import columns_for
from alcove.api.conversions import autoscaling as autoscaling_conversion
from alcove.api.conversions import events as events_conversion
from alcove.api.ids import GroupResource, GroupVersionKind
from alcove.api.kind import VERBS, Kind, Scope, Strategy, Subresource
from alcove.api.kinds import (
    admissionregistration,
    apiextensions,
    apiregistration,
    apps,
    arktos,
    authentication,
    authorization,
    autoscaling,
    batch,
    certificates,
    coordination,
    core,
    discovery,
    events,
    flowcontrol,
    identity,
    mizar,
    networking,
    node,
    policy,
    rbac,
    resource,
    scheduling,
    storage,
    storagemigration,
    usage,
)
from alcove.api.objects import Object
from alcove.api.schema import alcove_schemas, kubernetes_schemas, metrics, sight
from alcove.api.schema import identity as identity_schemas
from alcove.api.schema import usage as usage_schemas
from alcove.api.schema.definitions import Definitions
from alcove.api.schema.node import SchemaNode
from alcove.api.warnings.base import DEPRECATED

_RING0, _TENANT, _NAMESPACE = Scope.RING0, Scope.TENANT, Scope.NAMESPACE

_CREATE = ("create",)
_READ = ("get", "list")
_ONE_BY_ONE = tuple(verb for verb in VERBS if verb != "deletecollection")
_CHANGE = ("get", "patch", "update")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")

_ALL = ("all",)
_API_EXTENSIONS = ("api-extensions",)


class Row(Struct, frozen=True):
    resource: str
    kind: str
    scope: Scope
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS


class Conversion(Struct, frozen=True):
    """The resource and version that objects are stored as. Without functions, only apiVersion differs."""

    resource: GroupResource
    version: str
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None


class GroupVersionKinds(Struct, frozen=True):
    """One version of one group. `package` is the prefix of its definitions' names."""

    group: str
    version: str
    package: str
    strategies: Mapping[str, Strategy]
    rows: tuple[Row, ...]
    conversion: Conversion | None = None


_STATUS = ("status",)
_SCALED = ("scale", "status")

GROUPS: tuple[GroupVersionKinds, ...] = (
    GroupVersionKinds("", "v1", "io.k8s.api.core.v1", core.STRATEGIES, (
        Row("bindings", "Binding", _NAMESPACE, verbs=_CREATE),
        Row("componentstatuses", "ComponentStatus", _TENANT, ("cs",), verbs=_READ),
        Row("configmaps", "ConfigMap", _NAMESPACE, ("cm",)),
        Row("endpoints", "Endpoints", _NAMESPACE, ("ep",)),
        Row("events", "Event", _NAMESPACE, ("ev",)),
        Row("limitranges", "LimitRange", _NAMESPACE, ("limits",)),
        Row("namespaces", "Namespace", _TENANT, ("ns",), ("finalize", "status"), verbs=_ONE_BY_ONE),
        Row("nodes", "Node", _RING0, ("no",), ("proxy", "status")),
        Row("persistentvolumeclaims", "PersistentVolumeClaim", _NAMESPACE, ("pvc",), _STATUS),
        Row("persistentvolumes", "PersistentVolume", _TENANT, ("pv",), _STATUS),
        Row("pods", "Pod", _NAMESPACE, ("po",), (
            "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy",
            "resize", "status",
        ), _ALL),
        Row("podtemplates", "PodTemplate", _NAMESPACE),
        Row("replicationcontrollers", "ReplicationController", _NAMESPACE, ("rc",), _SCALED, _ALL),
        Row("resourcequotas", "ResourceQuota", _NAMESPACE, ("quota",), _STATUS),
        Row("secrets", "Secret", _NAMESPACE),
        Row("serviceaccounts", "ServiceAccount", _NAMESPACE, ("sa",), ("token",)),
        Row("services", "Service", _NAMESPACE, ("svc",), ("proxy", "status"), _ALL),
    )),
    GroupVersionKinds("", "v1", alcove_schemas.CORE, arktos.STRATEGIES, (
        Row("tenants", "Tenant", _RING0, ("te",), ("content", "finalize", "status"), verbs=_ONE_BY_ONE),
    )),
    GroupVersionKinds("", "v1", alcove_schemas.CORE, arktos.STRATEGIES, (
        # Short names belong to the stored group: kubectl warns about names that two groups claim.
        Row("networks", "Network", _TENANT, (), _STATUS),
    ), Conversion(GroupResource("arktos.futurewei.com", "networks"), "v1")),
    GroupVersionKinds("apiregistration.k8s.io", "v1", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1", apiregistration.STRATEGIES, (
        Row("apiservices", "APIService", _TENANT, (), _STATUS, _API_EXTENSIONS),
    )),
    GroupVersionKinds("apps", "v1", "io.k8s.api.apps.v1", apps.STRATEGIES, (
        Row("controllerrevisions", "ControllerRevision", _NAMESPACE),
        Row("daemonsets", "DaemonSet", _NAMESPACE, ("ds",), _STATUS, _ALL),
        Row("deployments", "Deployment", _NAMESPACE, ("deploy",), _SCALED, _ALL),
        Row("replicasets", "ReplicaSet", _NAMESPACE, ("rs",), _SCALED, _ALL),
        Row("statefulsets", "StatefulSet", _NAMESPACE, ("sts",), _SCALED, _ALL),
    )),
    GroupVersionKinds("events.k8s.io", "v1", "io.k8s.api.events.v1", events.STRATEGIES, (
        Row("events", "Event", _NAMESPACE, ("ev",)),
    ), Conversion(GroupResource("", "events"), "v1", events_conversion.to_storage, events_conversion.from_storage)),
    GroupVersionKinds("authentication.k8s.io", "v1", "io.k8s.api.authentication.v1", authentication.STRATEGIES, (
        Row("selfsubjectreviews", "SelfSubjectReview", _TENANT, verbs=_CREATE),
        Row("tokenreviews", "TokenReview", _TENANT, verbs=_CREATE),
    )),
    GroupVersionKinds("authorization.k8s.io", "v1", "io.k8s.api.authorization.v1", authorization.STRATEGIES, (
        Row("localsubjectaccessreviews", "LocalSubjectAccessReview", _NAMESPACE, verbs=_CREATE),
        Row("selfsubjectaccessreviews", "SelfSubjectAccessReview", _TENANT, verbs=_CREATE),
        Row("selfsubjectrulesreviews", "SelfSubjectRulesReview", _TENANT, verbs=_CREATE),
        Row("subjectaccessreviews", "SubjectAccessReview", _TENANT, verbs=_CREATE),
    )),
    GroupVersionKinds("autoscaling", "v2", "io.k8s.api.autoscaling.v2", autoscaling.STRATEGIES, (
        Row("horizontalpodautoscalers", "HorizontalPodAutoscaler", _NAMESPACE, ("hpa",), _STATUS, _ALL),
    )),
    GroupVersionKinds("autoscaling", "v1", "io.k8s.api.autoscaling.v1", autoscaling.STRATEGIES, (
        Row("horizontalpodautoscalers", "HorizontalPodAutoscaler", _NAMESPACE, ("hpa",), _STATUS, _ALL),
    ), Conversion(
        GroupResource("autoscaling", "horizontalpodautoscalers"), "v2", autoscaling_conversion.to_storage, autoscaling_conversion.from_storage,
    )),
    GroupVersionKinds("batch", "v1", "io.k8s.api.batch.v1", batch.STRATEGIES, (
        Row("cronjobs", "CronJob", _NAMESPACE, ("cj",), _STATUS, _ALL),
        Row("jobs", "Job", _NAMESPACE, (), _STATUS, _ALL),
    )),
    GroupVersionKinds("certificates.k8s.io", "v1", "io.k8s.api.certificates.v1", certificates.STRATEGIES, (
        Row("certificatesigningrequests", "CertificateSigningRequest", _TENANT, ("csr",), ("approval", "status")),
        Row("clustertrustbundles", "ClusterTrustBundle", _TENANT),
        Row("podcertificaterequests", "PodCertificateRequest", _NAMESPACE, (), _STATUS),
    )),
    GroupVersionKinds("networking.k8s.io", "v1", "io.k8s.api.networking.v1", networking.STRATEGIES, (
        Row("ingressclasses", "IngressClass", _TENANT),
        Row("ingresses", "Ingress", _NAMESPACE, ("ing",), _STATUS),
        Row("ipaddresses", "IPAddress", _TENANT, ("ip",)),
        Row("networkpolicies", "NetworkPolicy", _NAMESPACE, ("netpol",)),
        Row("servicecidrs", "ServiceCIDR", _TENANT, (), _STATUS),
    )),
    GroupVersionKinds("policy", "v1", "io.k8s.api.policy.v1", policy.STRATEGIES, (
        Row("poddisruptionbudgets", "PodDisruptionBudget", _NAMESPACE, ("pdb",), _STATUS),
    )),
    GroupVersionKinds("rbac.authorization.k8s.io", "v1", "io.k8s.api.rbac.v1", rbac.STRATEGIES, (
        Row("clusterrolebindings", "ClusterRoleBinding", _TENANT),
        Row("clusterroles", "ClusterRole", _TENANT),
        Row("rolebindings", "RoleBinding", _NAMESPACE),
        Row("roles", "Role", _NAMESPACE),
    )),
    GroupVersionKinds("storage.k8s.io", "v1", "io.k8s.api.storage.v1", storage.STRATEGIES, (
        Row("csidrivers", "CSIDriver", _TENANT),
        Row("csinodes", "CSINode", _TENANT, (), _STATUS),
        Row("csistoragecapacities", "CSIStorageCapacity", _NAMESPACE),
        Row("storageclasses", "StorageClass", _TENANT, ("sc",)),
        Row("volumeattachments", "VolumeAttachment", _TENANT, (), _STATUS),
        Row("volumeattributesclasses", "VolumeAttributesClass", _TENANT, ("vac",)),
    )),
    GroupVersionKinds("admissionregistration.k8s.io", "v1", "io.k8s.api.admissionregistration.v1", admissionregistration.STRATEGIES, (
        Row("mutatingadmissionpolicies", "MutatingAdmissionPolicy", _TENANT, (), (), _API_EXTENSIONS),
        Row("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", _TENANT, (), (), _API_EXTENSIONS),
        Row("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", _TENANT, (), (), _API_EXTENSIONS),
        Row("validatingadmissionpolicies", "ValidatingAdmissionPolicy", _TENANT, (), _STATUS, _API_EXTENSIONS),
        Row("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", _TENANT, (), (), _API_EXTENSIONS),
        Row("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", _TENANT, (), (), _API_EXTENSIONS),
    )),
    GroupVersionKinds(
        "apiextensions.k8s.io", "v1", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1", apiextensions.STRATEGIES, (
        Row("customresourcedefinitions", "CustomResourceDefinition", _TENANT, ("crd", "crds"), _STATUS, _API_EXTENSIONS),
    )),
    GroupVersionKinds("scheduling.k8s.io", "v1", "io.k8s.api.scheduling.v1", scheduling.STRATEGIES, (
        Row("priorityclasses", "PriorityClass", _TENANT, ("pc",)),
    )),
    GroupVersionKinds("coordination.k8s.io", "v1", "io.k8s.api.coordination.v1", coordination.STRATEGIES, (
        Row("leases", "Lease", _NAMESPACE),
    )),
    GroupVersionKinds("node.k8s.io", "v1", "io.k8s.api.node.v1", node.STRATEGIES, (
        Row("runtimeclasses", "RuntimeClass", _TENANT),
    )),
    GroupVersionKinds("discovery.k8s.io", "v1", "io.k8s.api.discovery.v1", discovery.STRATEGIES, (
        Row("endpointslices", "EndpointSlice", _NAMESPACE),
    )),
    GroupVersionKinds("resource.k8s.io", "v1", "io.k8s.api.resource.v1", resource.STRATEGIES, (
        Row("deviceclasses", "DeviceClass", _TENANT),
        Row("devicetaintrules", "DeviceTaintRule", _TENANT, (), _STATUS),
        Row("resourceclaims", "ResourceClaim", _NAMESPACE, (), _STATUS),
        Row("resourceclaimtemplates", "ResourceClaimTemplate", _NAMESPACE),
        Row("resourceslices", "ResourceSlice", _TENANT),
    )),
    GroupVersionKinds("flowcontrol.apiserver.k8s.io", "v1", "io.k8s.api.flowcontrol.v1", flowcontrol.STRATEGIES, (
        Row("flowschemas", "FlowSchema", _TENANT, (), _STATUS),
        Row("prioritylevelconfigurations", "PriorityLevelConfiguration", _TENANT, (), _STATUS),
    )),
    GroupVersionKinds("storagemigration.k8s.io", "v1", "io.k8s.api.storagemigration.v1", storagemigration.STRATEGIES, (
        Row("storageversionmigrations", "StorageVersionMigration", _TENANT, (), _STATUS),
    )),
    GroupVersionKinds("metrics.k8s.io", "v1beta1", metrics.PACKAGE, {"nodes": Strategy(), "pods": Strategy()}, (
        Row("nodes", "NodeMetrics", _RING0, verbs=_READ),
        Row("pods", "PodMetrics", _NAMESPACE, verbs=_READ),
    )),
    GroupVersionKinds("authentication.alcove.io", "v1alpha1", identity_schemas.PACKAGE, identity.STRATEGIES, (
        Row("identityproviders", "IdentityProvider", _TENANT, ("idp",)),
    )),
    GroupVersionKinds("sight.alcove.io", "v1alpha1", sight.PACKAGE, {
        name: Strategy() for name in ("captures", "flows", "tenantusages", "traces")
    }, (
        Row("captures", "Capture", _NAMESPACE, verbs=_CREATE),
        Row("flows", "Flow", _NAMESPACE, verbs=("list", "watch")),
        Row("tenantusages", "TenantUsage", _TENANT, verbs=("list",)),
        Row("traces", "Trace", _NAMESPACE, verbs=_CREATE),
    )),
    GroupVersionKinds("usage.alcove.io", "v1alpha1", usage_schemas.PACKAGE, usage.STRATEGIES, (
        Row("usagerecords", "UsageRecord", _RING0),
        Row("usagereports", "UsageReport", _RING0, (), _STATUS),
    )),
    GroupVersionKinds("arktos.futurewei.com", "v1", alcove_schemas.ARKTOS, arktos.STRATEGIES, (
        Row("networks", "Network", _TENANT, ("net", "ne"), _STATUS),
    )),
    GroupVersionKinds("mizar.com", "v1", alcove_schemas.MIZAR, mizar.STRATEGIES, (
        Row("bouncers", "Bouncer", _RING0, ("bncr", "bncrs"), _STATUS),
        Row("dividers", "Divider", _RING0, ("divd", "divds"), _STATUS),
        Row("droplets", "Droplet", _RING0, ("drp", "drps"), _STATUS),
        Row("endpoints", "Endpoint", _RING0, ("eps",), _STATUS),
        Row("subnets", "Subnet", _RING0, (), _STATUS),
        Row("vpcs", "Vpc", _RING0, (), _STATUS),
    )),
)  # fmt: skip


def _of_group(group: str, version: str, kind: str) -> Callable[[GroupVersionKind], GroupVersionKind]:
    return lambda parent: GroupVersionKind(group, version, kind.format(parent.kind))


def _same(parent: GroupVersionKind) -> GroupVersionKind:
    return parent


SUBRESOURCES: Mapping[str, tuple[Callable[[GroupVersionKind], GroupVersionKind], tuple[str, ...]]] = {
    "approval": (_same, _CHANGE),
    "attach": (_of_group("", "v1", "{}AttachOptions"), _CONNECT),
    "binding": (_of_group("", "v1", "Binding"), _CREATE),
    "ephemeralcontainers": (_same, _CHANGE),
    "eviction": (_of_group("policy", "v1", "Eviction"), _CREATE),
    "exec": (_of_group("", "v1", "{}ExecOptions"), _CONNECT),
    "finalize": (_same, ("update",)),
    "content": (_same, ("delete", "get", "update")),
    "log": (_same, ("get",)),
    "portforward": (_of_group("", "v1", "{}PortForwardOptions"), _CONNECT),
    "proxy": (_of_group("", "v1", "{}ProxyOptions"), _PROXY),
    "resize": (_same, _CHANGE),
    "scale": (_of_group("autoscaling", "v1", "Scale"), _CHANGE),
    "status": (_same, _CHANGE),
    "token": (_of_group("authentication.k8s.io", "v1", "TokenRequest"), _CREATE),
}
"""The kind that each subresource reads and writes, and its verbs."""

_BODIES = {
    GroupVersionKind("", "v1", "DeleteOptions"): "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    GroupVersionKind("", "v1", "ObjectMeta"): "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    GroupVersionKind(
        "authentication.k8s.io", "v1", "TokenRequest"
    ): "io.k8s.api.authentication.v1.TokenRequest",
    GroupVersionKind("autoscaling", "v1", "Scale"): "io.k8s.api.autoscaling.v1.Scale",
    GroupVersionKind("policy", "v1", "Eviction"): "io.k8s.api.policy.v1.Eviction",
}
"""Kinds that requests carry beside the kinds themselves."""


class KindRegistry:
    """The stock kinds of every tenant by name. Read-only once it is built."""

    def __init__(self, kinds: Sequence[Kind], bodies: Mapping[GroupVersionKind, SchemaNode]) -> None:
        self._kinds = tuple(kinds)
        self._by_resource = {(kind.group, kind.version, kind.resource): kind for kind in kinds}
        self._by_kind = {(kind.group, kind.version, kind.kind): kind for kind in kinds}
        self._stored = {
            kind.group_resource: kind
            for kind in kinds
            if kind.storage_resource == kind.group_resource and kind.storage_version == kind.version
        }
        self._bodies = bodies

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds)

    def all(self) -> Sequence[Kind]:
        """Return every kind at every version, in order of preference."""
        return self._kinds

    def find(self, group: str, version: str, resource: str) -> Kind | None:
        return self._by_resource.get((group, version, resource))

    def find_kind(self, group: str, version: str, kind: str) -> Kind | None:
        return self._by_kind.get((group, version, kind))

    def stored(self, resource: GroupResource) -> Kind | None:
        """Return the kind whose objects the store keeps under `resource`."""
        return self._stored.get(resource)

    def body(self, gvk: GroupVersionKind) -> SchemaNode | None:
        """Return the schema of a request body: a kind, an options object or a review."""
        kind = self.find_kind(gvk.group, gvk.version, gvk.kind)
        return kind.schema if kind is not None else self._bodies.get(gvk)

    @property
    def object_meta(self) -> SchemaNode:
        return self._bodies[GroupVersionKind("", "v1", "ObjectMeta")]


def load() -> KindRegistry:
    """Compile the schemas of all kinds, which takes about 15 ms and 1 MB."""
    definitions = kubernetes_schemas.load()
    kinds = [_kind(group, row, definitions) for group in GROUPS for row in group.rows]
    return KindRegistry(kinds, {gvk: definitions.node(name) for gvk, name in _BODIES.items()})


def _kind(group: GroupVersionKinds, row: Row, definitions: Definitions) -> Kind:
    parent = GroupVersionKind(group.group, group.version, row.kind)
    definition = f"{group.package}.{row.kind}"
    stored = group.conversion
    return Kind(
        group=group.group,
        version=group.version,
        kind=row.kind,
        resource=row.resource,
        singular=row.kind.lower(),
        scope=row.scope,
        schema=definitions.node(definition),
        strategy=group.strategies[row.resource],
        short_names=row.short_names,
        categories=row.categories,
        verbs=row.verbs,
        subresources=tuple(_subresource(name, parent) for name in row.subresources),
        columns=columns_for(group.group, row.kind),
        storage_version=stored.version if stored else group.version,
        to_storage=stored.to_storage if stored else None,
        from_storage=stored.from_storage if stored else None,
        stored_resource=stored.resource if stored else None,
        definition=definition,
        warning=DEPRECATED.get((group.group, group.version, row.kind), ""),
    )


def _subresource(name: str, parent: GroupVersionKind) -> Subresource:
    kind_of, verbs = SUBRESOURCES[name]
    return Subresource(name, kind_of(parent), verbs)
