"""The resources that Alcove's processes use, as constants: all that a client needs to know of a kind.

Kinds that are not known in advance (CRDs) are found by discovery (`client/discovery.py`).
"""

from msgspec import Struct

from alcove.api.ids import GroupResource


class Resource(Struct, frozen=True, order=True):
    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @property
    def root(self) -> str:
        """The path of its group and version: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return str(self.group_resource)


TENANTS = Resource("", "v1", "tenants", "Tenant", False)
NODES = Resource("", "v1", "nodes", "Node", False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
EVENTS = Resource("", "v1", "events", "Event")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PODS = Resource("", "v1", "pods", "Pod")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Resource("", "v1", "services", "Service")

CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
JOBS = Resource("batch", "v1", "jobs", "Job")
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False)
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False)
PRIORITY_LEVEL_CONFIGURATIONS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False
)
STORAGE_VERSION_MIGRATIONS = Resource(
    "storagemigration.k8s.io", "v1", "storageversionmigrations", "StorageVersionMigration", False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)
POD_CERTIFICATE_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "podcertificaterequests", "PodCertificateRequest"
)
CLUSTER_TRUST_BUNDLES = Resource(
    "certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle", False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

NETWORKS = Resource("arktos.futurewei.com", "v1", "networks", "Network", False)
VPCS = Resource("mizar.com", "v1", "vpcs", "Vpc", False)
SUBNETS = Resource("mizar.com", "v1", "subnets", "Subnet", False)
VPC_ENDPOINTS = Resource("mizar.com", "v1", "endpoints", "Endpoint", False)
BOUNCERS = Resource("mizar.com", "v1", "bouncers", "Bouncer", False)
DIVIDERS = Resource("mizar.com", "v1", "dividers", "Divider", False)
DROPLETS = Resource("mizar.com", "v1", "droplets", "Droplet", False)

FLOWS = Resource("sight.alcove.io", "v1alpha1", "flows", "Flow")
CAPTURES = Resource("sight.alcove.io", "v1alpha1", "captures", "Capture")
TRACES = Resource("sight.alcove.io", "v1alpha1", "traces", "Trace")
TENANT_USAGES = Resource("sight.alcove.io", "v1alpha1", "tenantusages", "TenantUsage", False)
USAGE_REPORTS = Resource("usage.alcove.io", "v1alpha1", "usagereports", "UsageReport", False)
USAGE_RECORDS = Resource("usage.alcove.io", "v1alpha1", "usagerecords", "UsageRecord", False)
