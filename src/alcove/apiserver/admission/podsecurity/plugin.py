"""Rejects pods that violate their namespace's level or their tenant's ceiling; warns about such templates."""

from collections.abc import Mapping
from itertools import islice

from alcove.api import objects
from alcove.api.errors import Forbidden, Invalid
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    TENANTS,
)
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.podsecurity import levels
from alcove.apiserver.admission.podsecurity.baseline import PodView
from alcove.apiserver.admission.podsecurity.levels import ENFORCE, PREFIX, Level, PodSecurityPolicy, Standard
from alcove.apiserver.admission.podsecurity.standards import Violation, violation
from alcove.apiserver.cache.cache import Cache

TEMPLATES: Mapping[GroupResource, tuple[str, ...]] = {
    POD_TEMPLATES: ("template",),
    REPLICATION_CONTROLLERS: ("spec", "template"),
    DAEMON_SETS: ("spec", "template"),
    DEPLOYMENTS: ("spec", "template"),
    REPLICA_SETS: ("spec", "template"),
    STATEFUL_SETS: ("spec", "template"),
    CRON_JOBS: ("spec", "jobTemplate", "spec", "template"),
    JOBS: ("spec", "template"),
}
PODS_CHECKED_MAX = 3000
"""Number of existing pods that are checked, for warnings only, if the level of their namespace becomes
stricter."""

_SUBRESOURCES = ("", "ephemeralcontainers", "resize")
_CONTAINERS = ("containers", "initContainers")


class PodSecurity(Plugin):
    def __init__(self, cache: Cache, ceiling: Level = Level.BASELINE) -> None:
        """`ceiling` applies to every tenant except ring0, unless `spec.podSecurity` of its Tenant overrides
        it."""
        self._cache = cache
        self._ceiling = Standard(ceiling)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if operation not in (Operation.CREATE, Operation.UPDATE):
            return False
        if resource == PODS:
            return subresource in _SUBRESOURCES
        return not subresource and (resource == NAMESPACES or resource in TEMPLATES)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == NAMESPACES:
            self._check_namespace(attributes)
            return
        policy, ceiling = self._policy(attributes), self.ceiling(attributes.tenant)
        if attributes.resource == PODS:
            self._check_pod(attributes, policy, ceiling)
        else:
            _check_template(attributes, policy, ceiling)

    def ceiling(self, tenant: TenantId) -> Standard:
        if tenant == SYSTEM:
            return Standard()
        owner = self._cache.get(SYSTEM, TENANTS, "", tenant)
        level = levels.parse_level(objects.get(owner or {}, "spec", "podSecurity", default=""))
        return self._ceiling if level is None else Standard(level)

    def _policy(self, attributes: Attributes) -> PodSecurityPolicy:
        namespace = self._cache.get(attributes.tenant, NAMESPACES, "", attributes.namespace)
        return levels.policy(objects.labels(namespace) if namespace is not None else {})[0]

    # Pods

    def _check_pod(self, attributes: Attributes, policy: PodSecurityPolicy, ceiling: Standard) -> None:
        pod = attributes.obj
        assert pod is not None
        if attributes.old is not None and not _is_relevant_update(pod, attributes.old):
            return
        enforced = policy.enforce if policy.enforce.level else ceiling
        attributes.annotations[f"{PREFIX}enforce-policy"] = str(enforced)
        if not (ceiling.level or policy.enforce.level or policy.audit.level or policy.warn.level):
            return
        view = PodView.of(pod.get("metadata") or {}, pod["spec"])
        for standard in _enforced(policy.enforce, ceiling):
            if found := violation(standard, view):
                _annotate(attributes, policy, view)
                message = f'violates PodSecurity "{standard}": {found.details}'
                raise Forbidden.of(PODS, attributes.name, message)
        _annotate(attributes, policy, view)
        _warn(attributes, violation(policy.warn, view))

    # Namespaces

    def _check_namespace(self, attributes: Attributes) -> None:
        namespace = attributes.obj
        assert namespace is not None
        policy, errors = levels.policy(objects.labels(namespace))
        old, old_errors = levels.policy(objects.labels(attributes.old or {}))
        if errors and errors != old_errors:
            raise Invalid.of("", "Namespace", attributes.name, errors)
        self._warn_of_ceiling(attributes, policy)
        if policy.enforce == old.enforce:
            return
        is_stricter = policy.enforce.level > old.enforce.level or policy.enforce.minor != old.enforce.minor
        if attributes.old is not None and policy.enforce.level and is_stricter:
            self._warn_of_pods(attributes, policy.enforce)

    def _warn_of_ceiling(self, attributes: Attributes, policy: PodSecurityPolicy) -> None:
        """Warn if a new label chooses a level that is less strict than the ceiling."""
        chosen, before = (
            objects.labels(each or {}).get(ENFORCE) for each in (attributes.obj, attributes.old)
        )
        ceiling = self.ceiling(attributes.tenant)
        if chosen is not None and chosen != before and policy.enforce.level < ceiling.level:
            attributes.warn(
                f'PodSecurity "{ceiling}" is enforced for all pods of this tenant, '
                f"regardless of the label {ENFORCE}"
            )

    def _warn_of_pods(self, attributes: Attributes, standard: Standard) -> None:
        """Warn about existing pods that violate the new level."""
        total = self._cache.count(attributes.tenant, PODS, attributes.name)
        names: dict[str, list[str]] = {}
        for entry in islice(self._cache.entries(attributes.tenant, PODS, attributes.name), PODS_CHECKED_MAX):
            pod = entry.decode()
            if found := violation(standard, PodView.of(pod["metadata"], pod["spec"])):
                names.setdefault(found.reasons, []).append(pod["metadata"]["name"])
        if total > PODS_CHECKED_MAX:
            checked = f"the first {PODS_CHECKED_MAX} of {total} existing pods"
            attributes.warn(f"new PodSecurity enforce level only checked against {checked}")
        if names:
            namespace = f'namespace "{attributes.name}"'
            attributes.warn(
                f'existing pods in {namespace} violate the new PodSecurity enforce level "{standard}"'
            )
        for message in sorted(_counted(breaking, message) for message, breaking in names.items()):
            attributes.warn(message)


def _counted(names: list[str], message: str) -> str:
    others = len(names) - 1
    more = f" (and {others} other {'pod' if others == 1 else 'pods'})" if others else ""
    return f"{min(names)}{more}: {message}"


def _enforced(first: Standard, ceiling: Standard) -> tuple[Standard, ...]:
    """The enforced standards: both, unless the first one includes the ceiling."""
    if first.level >= ceiling.level and first.minor == ceiling.minor:
        return (first,)
    return (first, ceiling) if first.level else (ceiling,)


def _check_template(attributes: Attributes, policy: PodSecurityPolicy, ceiling: Standard) -> None:
    warn = policy.warn if policy.warn.level >= ceiling.level else ceiling
    if not warn.level and not policy.audit.level:
        return
    template = objects.get(attributes.obj or {}, *TEMPLATES[attributes.resource])
    if template is None or template.get("spec") is None:
        return
    view = PodView.of(template.get("metadata") or {}, template["spec"])
    _annotate(attributes, policy, view)
    _warn(attributes, violation(warn, view))


def _annotate(attributes: Attributes, policy: PodSecurityPolicy, pod: PodView) -> None:
    if found := violation(policy.audit, pod):
        attributes.annotations[f"{PREFIX}audit-violations"] = f"would {found}"


def _warn(attributes: Attributes, found: Violation | None) -> None:
    if found is not None:
        attributes.warn(f"would {found}")


def _is_relevant_update(new: Object, old: Object) -> bool:
    """Whether an update adds a container or changes an image: other security settings are immutable."""
    before, after = old["spec"], new["spec"]
    for field in _CONTAINERS:
        images = [[each.get("image") for each in spec.get(field) or ()] for spec in (before, after)]
        if images[0] != images[1]:
            return True
    images_by_name = {each.get("name"): each.get("image") for each in before.get("ephemeralContainers") or ()}
    return any(
        each.get("name") not in images_by_name or images_by_name[each["name"]] != each.get("image")
        for each in after.get("ephemeralContainers") or ()
    )
