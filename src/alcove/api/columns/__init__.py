"""Printer columns: the server-side table that `kubectl get` shows for each kind."""

from alcove.api.columns import (
    access,
    alcove,
    autoscalers,
    core,
    extensions,
    nodes,
    pods,
    services,
    storage,
    workloads,
)
from alcove.api.columns.base import AGE, DEFAULT, NAME
from alcove.api.kind import PrinterColumn

_PLAIN = (NAME, AGE)

COLUMNS: dict[tuple[str, str], tuple[PrinterColumn, ...]] = {
    ("", "ComponentStatus"): nodes.COMPONENT_STATUS,
    ("", "ConfigMap"): core.CONFIG_MAP,
    ("", "Endpoints"): services.ENDPOINTS,
    ("", "Event"): core.EVENT,
    ("", "Namespace"): core.NAMESPACE,
    ("", "Network"): alcove.NETWORK,
    ("", "Node"): nodes.NODE,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.COLUMNS,
    ("", "PodTemplate"): workloads.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): core.RESOURCE_QUOTA,
    ("", "Secret"): core.SECRET,
    ("", "Service"): services.SERVICE,
    ("", "ServiceAccount"): core.SERVICE_ACCOUNT,
    ("", "Tenant"): alcove.TENANT,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): extensions.WEBHOOK_CONFIGURATION,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): extensions.VALIDATING_ADMISSION_POLICY,
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
    ): extensions.VALIDATING_ADMISSION_POLICY_BINDING,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): extensions.WEBHOOK_CONFIGURATION,
    ("apiregistration.k8s.io", "APIService"): extensions.API_SERVICE,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("arktos.futurewei.com", "Network"): alcove.NETWORK,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.COLUMNS,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("certificates.k8s.io", "CertificateSigningRequest"): access.CERTIFICATE_SIGNING_REQUEST,
    ("coordination.k8s.io", "Lease"): nodes.LEASE,
    ("discovery.k8s.io", "EndpointSlice"): services.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): core.EVENT,
    ("metrics.k8s.io", "NodeMetrics"): nodes.METRICS,
    ("metrics.k8s.io", "PodMetrics"): nodes.METRICS,
    ("mizar.com", "Bouncer"): alcove.BOUNCER,
    ("mizar.com", "Divider"): alcove.DIVIDER,
    ("mizar.com", "Droplet"): alcove.DROPLET,
    ("mizar.com", "Endpoint"): alcove.ENDPOINT,
    ("mizar.com", "Subnet"): alcove.SUBNET,
    ("mizar.com", "Vpc"): alcove.VPC,
    ("networking.k8s.io", "Ingress"): services.INGRESS,
    ("networking.k8s.io", "IngressClass"): services.INGRESS_CLASS,
    ("networking.k8s.io", "IPAddress"): services.IP_ADDRESS,
    ("networking.k8s.io", "NetworkPolicy"): services.NETWORK_POLICY,
    ("networking.k8s.io", "ServiceCIDR"): services.SERVICE_CIDR,
    ("node.k8s.io", "RuntimeClass"): nodes.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): access.POD_DISRUPTION_BUDGET,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.BINDING,
    ("resource.k8s.io", "DeviceClass"): _PLAIN,
    ("resource.k8s.io", "ResourceClaim"): extensions.RESOURCE_CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): _PLAIN,
    ("resource.k8s.io", "ResourceSlice"): extensions.RESOURCE_SLICE,
    ("scheduling.k8s.io", "PriorityClass"): access.PRIORITY_CLASS,
    ("storage.k8s.io", "CSIDriver"): storage.CSI_DRIVER,
    ("storage.k8s.io", "CSINode"): storage.CSI_NODE,
    ("storage.k8s.io", "CSIStorageCapacity"): storage.CSI_STORAGE_CAPACITY,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
}
"""By group and kind; all versions of a kind have the same columns."""


def columns_for(group: str, kind: str) -> tuple[PrinterColumn, ...]:
    """Return the columns of a kind; kinds that are not in the table have name and creation time."""
    return COLUMNS.get((group, kind), DEFAULT)
