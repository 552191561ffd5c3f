"""Who acts on each field of the served kinds, or why nobody does: nothing that a client writes is ignored silently.

A row has patterns of `DEFINITION.FIELD` (as in OpenAPI, without the common prefix) and what uses the fields. The first row
that matches a field counts. `tests/unit/api/test_field_uses.py` fails for a field without a row that holds: a reader must name the
field, a warned one must be in `warnings/unserved.py`; and for a row that matches no served field.
"""

from enum import Enum
from fnmatch import fnmatchcase

from msgspec import Struct


class FieldUse(Enum):
    READ = "read"
    """By a module below one of the row's paths."""
    REFUSED = "refused"
    """By validation, by admission, or by the node: the pod fails or waits with an event that names the cause."""
    WARNED = "warned"
    """Clients are told by a `Warning` header."""
    STORED = "stored"
    """For clients, or for components that users bring. Kubernetes' own components do not act on it either, or it is a
    status that only reports."""


class Row(Struct, frozen=True):
    patterns: str
    """Separated by blanks; `*` matches anything."""
    use: FieldUse
    reason: str
    """For READ: paths below src/alcove, separated by blanks. Else why nobody reads it."""

    def matches(self, field: str) -> bool:
        return any(fnmatchcase(field, pattern) for pattern in self.patterns.split())


_PLUGINS = " ".join(
    f"core.v1.{each}*VolumeSource.*"
    for each in (
        *(
            "AWSElasticBlockStore",
            "AzureDisk",
            "AzureFile",
            "CSI",
            "CephFS",
            "Cinder",
            "FC",
            "Flex",
            "Flocker",
        ),
        *(
            "GCEPersistentDisk",
            "GitRepo",
            "Glusterfs",
            "ISCSI",
            "NFS",
            "PhotonPersistentDisk",
            "Portworx",
            "Quobyte",
        ),
        *("RBD", "ScaleIO", "StorageOS", "VsphereVirtualDisk"),
    )
)

ROWS = (
    # Fields that nobody acts on.
    Row("core.v1.ContainerPort.host*", FieldUse.READ, "agent/network/host_ports.py"),
    Row("core.v1.PersistentVolumeSpec.mountOptions", FieldUse.WARNED, "spec.mountOptions"),
    Row("storage.v1.StorageClass.mountOptions", FieldUse.WARNED, "mountOptions"),
    Row(
        "core.v1.PersistentVolumeClaim*.*olumeAttributesClass*",
        FieldUse.WARNED,
        "spec.volumeAttributesClassName",
    ),
    Row(
        "core.v1.PodSecurityContext.seLinux* core.v1.SELinuxOptions.*",
        FieldUse.WARNED,
        "spec.securityContext.seLinuxOptions",
    ),
    Row(
        "core.v1.SecurityContext.seLinuxOptions",
        FieldUse.WARNED,
        "spec.containers[].securityContext.seLinuxOptions",
    ),
    Row(
        "networking.v1.IngressBackend.resource", FieldUse.WARNED, "spec.rules[].http.paths[].backend.resource"
    ),
    Row(
        "core.v1.WindowsSecurityContextOptions.* core.v1.*SecurityContext.windowsOptions",
        FieldUse.REFUSED,
        "There are no Windows nodes: nodes reject pods of another OS, and validation these options in pods of Linux.",
    ),
    Row(
        _PLUGINS,
        FieldUse.REFUSED,
        "Volumes of plugins that nodes do not have: the pod waits with FailedMount.",
    ),
    Row(
        "core.v1.VolumeDevice.* core.v1.LocalVolumeSource.fsType",
        FieldUse.REFUSED,
        "Block devices: the container does not start, and the event says that the node has none.",
    ),
    Row(
        "core.v1.PodSpec.resourceClaims core.v1.PodResourceClaim.* core.v1.ResourceClaim.*",
        FieldUse.REFUSED,
        "Devices are not allocated: the scheduler says so in the pod's condition.",
    ),
    Row("resource.v1.DeviceTaintRuleSpec.*", FieldUse.WARNED, "spec.taint"),
    Row(
        "certificates.v1.PodCertificateRequest*",
        FieldUse.STORED,
        "Nodes write the spec, signers that users bring the status.",
    ),
    Row(
        "resource.v1.* core.v1.*ResourceClaimStatus.* core.v1.*ExtendedResource* core.v1.NodeAllocatable* core.v1.ResourceHealth.*",
        FieldUse.STORED,
        "Devices are not allocated (SCOPE.md); the kinds are kept for drivers that users bring.",
    ),
    Row(
        "storage.v1.CSI* storage.v1.VolumeAttach* storage.v1.VolumeAttributesClass.* storage.v1.VolumeError.* "
        "storage.v1.StorageHealth.* core.v1.AttachedVolume.*",
        FieldUse.STORED,
        "CSI drivers are not served (SCOPE.md); the kinds are kept for drivers that users bring.",
    ),
    Row(
        "core.v1.NodeSpec.podCIDR* core.v1.NodeSpec.configSource core.v1.NodeSpec.externalID core.v1.NodeConfig* "
        "core.v1.ConfigMapNodeConfigSource.*",
        FieldUse.STORED,
        "Only ring0 writes nodes; networks have ranges of their own, and the other fields are no longer used by Kubernetes.",
    ),
    Row(
        "core.v1.NodeStatus.declaredFeatures core.v1.NodeStatus.volumes* core.v1.NodeSystemInfo.* "
        "core.v1.NodeRuntimeHandlerFeatures.* core.v1.ContainerStatus.allocatedResourcesStatus core.v1.ImageVolumeStatus.* "
        "core.v1.VolumeMountStatus.* core.v1.*VolumeHealth* core.v1.PodStatus.volumeHealth "
        "core.v1.PodStatus.nodeAllocatableResourceClaimStatuses core.v1.PersistentVolumeClaimStatus.*Status* "
        "core.v1.NodeStatus.features core.v1.NodeFeatures.* core.v1.NodeRuntimeHandler.features "
        "autoscaling.v2.*MetricStatus.* autoscaling.v2.MetricStatus.object authorization.v1.*Status.evaluationError",
        FieldUse.STORED,
        "Statuses that report what does not occur here.",
    ),
    Row(
        "coordination.v1.LeaseSpec.preferredHolder coordination.v1.LeaseSpec.strategy",
        FieldUse.STORED,
        "Leases are between clients; the API server elects nobody.",
    ),
    Row(
        "discovery.v1.Endpoint.deprecatedTopology events.v1.Event.deprecated* io.alcove.core.v1.TenantSpec.storageClusterId "
        "com.mizar.v1.*.main* com.mizar.v1.*.cnidelay com.mizar.v1.*.netns com.futurewei.arktos.v1.NetworkSpec.vpc-id",
        FieldUse.STORED,
        "Kept for clients of older versions.",
    ),
    Row(
        "io.alcove.sight.v1alpha1.CaptureSpec.* io.alcove.sight.v1alpha1.TraceSpec.*",
        FieldUse.READ,
        "apiserver/sight/",
    ),
    Row("io.alcove.sight.v1alpha1.*", FieldUse.STORED, "Reported by nodes; nobody writes them."),
    Row(
        "io.alcove.authentication.v1alpha1.*",
        FieldUse.READ,
        "api/objects.py api/jwt_authenticators.py api/kinds/identity.py apiserver/auth/oidc/",
    ),
    Row("io.alcove.usage.v1alpha1.UsageAmounts.*", FieldUse.STORED, "Added up, all alike (api/usage.py)."),
    Row("io.alcove.usage.v1alpha1.*", FieldUse.READ, "api/usage.py apiserver/sight/ controllers/usage/"),
    # Fields that the API server itself acts on: schemas, conversions, defaults.
    Row(
        "apiextensions.v1.* meta.v1.* authorization.v1.*SelectorAttributes.* authorization.v1.* authentication.v1.* "
        "core.v1.Secret.stringData core.v1.PodStatus.qosClass events.v1.* core.v1.Event* autoscaling.v1.* batch.v1.JobSpec.manualSelector "
        "apiregistration.v1.* admissionregistration.v1.* rbac.v1.*",
        FieldUse.READ,
        "api/ apiserver/ client/ controllers/autoscaling/",
    ),
    # Fields that names alone would find elsewhere: only these modules count.
    Row("core.v1.HTTPGetAction.* core.v1.HTTPHeader.*", FieldUse.READ, "agent/probes/checks.py"),
    Row("core.v1.TCPSocketAction.* core.v1.GRPCAction.*", FieldUse.READ, "agent/probes/checks.py"),
    Row("core.v1.Probe.* core.v1.ExecAction.*", FieldUse.READ, "agent/probes/ agent/pods/plan.py"),
    Row("core.v1.Lifecycle*", FieldUse.READ, "agent/pods/ agent/probes/checks.py"),
    Row("core.v1.EnvVarSource.* core.v1.FileKeySelector.*", FieldUse.READ, "agent/pods/environment.py"),
    Row("core.v1.Env* core.v1.*KeySelector.*", FieldUse.READ, "agent/pods/environment.py"),
    Row(
        "core.v1.Capabilities.* core.v1.SeccompProfile.* core.v1.AppArmorProfile.*",
        FieldUse.READ,
        "agent/runtime/",
    ),
    Row(
        "core.v1.SecurityContext.* core.v1.PodSecurityContext.*",
        FieldUse.READ,
        "agent/runtime/ agent/volumes/",
    ),
    Row("core.v1.VolumeMount.*", FieldUse.READ, "agent/volumes/mounts.py"),
    Row("core.v1.ContainerRestartRule*", FieldUse.READ, "agent/pods/containers.py"),
    Row("core.v1.PodDNSConfig*", FieldUse.READ, "dns/resolvconf.py"),
    Row("core.v1.HostAlias.*", FieldUse.READ, "agent/pods/files.py"),
    Row(
        "core.v1.Pod*Affinity* core.v1.Affinity.* core.v1.NodeAffinity.* core.v1.NodeSelector* core.v1.WeightedPod* "
        "core.v1.PreferredSchedulingTerm.* core.v1.TopologySpreadConstraint.* core.v1.Toleration.* core.v1.PodSchedulingGate.*",
        FieldUse.READ,
        "scheduler/ api/nodeselection.py api/tolerations.py apiserver/admission/",
    ),
    Row(
        "core.v1.Service.* core.v1.ServiceSpec.* core.v1.ServicePort.* core.v1.ClientIPConfig.* core.v1.SessionAffinityConfig.*",
        FieldUse.READ,
        "agent/network/ api/kinds/core/services/ controllers/ dns/ network/",
    ),
    Row("networking.v1.Ingress*", FieldUse.READ, "network/ingress/ agent/ingress/ controllers/ apiserver/"),
    Row("networking.v1.NetworkPolicy*", FieldUse.READ, "network/policy.py agent/network/"),
    Row(
        "batch.v1.*",
        FieldUse.READ,
        "controllers/jobs/ controllers/cronjobs/ controllers/ttl.py controllers/workloads/",
    ),
    Row("autoscaling.v2.*", FieldUse.READ, "controllers/autoscaling/ controllers/conditions.py"),
    Row("apps.v1.*", FieldUse.READ, "controllers/"),
    Row("*", FieldUse.READ, "agent/ apiserver/ client/ controllers/ dns/ network/ scheduler/ vpc/"),
)


def use_of(field: str) -> Row | None:
    """The row for `DEFINITION.FIELD`; None if there is none."""
    return next((row for row in ROWS if row.matches(field)), None)
