"""What the node decides of the configuration of a pod's containers: control group, limits, security policy, user
namespace."""

from alcove.agent.cgroups import CgroupLayout
from alcove.agent.podkey import PodKey
from alcove.agent.pods.node_services import NodeServices
from alcove.agent.runtime import security
from alcove.agent.runtime.base import ContainerId, Isolation
from alcove.agent.runtime.config import ContainerContext, IdMapping, NamespacePaths
from alcove.agent.runtime.resources import container_limits_of, oom_score, pod_limits_of, rlimits
from alcove.api.objects import Object


def has_user_namespace(isolation: Isolation, spec: Object) -> bool:
    """Whether the runtime must create a user namespace. A gVisor sandbox separates users anyway."""
    return spec.get("hostUsers") is False and isolation is Isolation.NAMESPACES


class ContainerContexts:
    """Those of one pod."""

    def __init__(self, key: PodKey, services: NodeServices) -> None:
        self._key = key
        self._services = services

    def context(
        self,
        isolation: Isolation,
        id: ContainerId,
        rootfs: str,
        shared: NamespacePaths,
        spec: Object,
        container: Object | None = None,
    ) -> ContainerContext:
        """Without `container`, that of the sandbox."""
        services = self._services
        is_whole_pod = container is None and isolation is Isolation.SANDBOX
        limits = pod_limits_of(spec) if is_whole_pod else container_limits_of(container or {}, spec)
        return ContainerContext(
            isolation=isolation,
            policy=security.policy_of(services.trusted.includes(self._key), isolation),
            rootfs=rootfs,
            cgroup=f"{services.pod_group(self._key)}/{id}",
            limits=limits,
            seccomp=services.seccomp,
            seccomp_profiles=services.folders.data / "seccomp",
            namespaces=shared,
            mapping=self.mapping(isolation, spec),
            unified_cgroups=services.cgroups.layout is CgroupLayout.V2,
            oom_score=oom_score(spec, container or {}, services.machine),
            rlimits=rlimits(services.machine),
            capabilities=services.capabilities,
        )

    def mapping(self, isolation: Isolation, spec: Object) -> IdMapping | None:
        if not has_user_namespace(isolation, spec):
            return None
        return self._services.ids.get(self._key.directory_name)
