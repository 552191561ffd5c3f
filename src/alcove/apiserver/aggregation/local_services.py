"""The APIServices of the group versions that this server serves itself.

They are the same for all tenants, never stored, and cannot be changed: a tenant is shown them among its own, as
kube-apiserver lists them.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.kind import Scope
from alcove.api.objects import Object
from alcove.api.registry import KindRegistry
from alcove.api.resources import API_SERVICES
from alcove.apiserver import builtin
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.reader import CacheReader
from alcove.store.base import ABSENT

CUSTOM_GROUP_PRIORITY = 1_000
"""The priority of the groups of CRDs, as in Kubernetes."""
_FIRST_GROUP_PRIORITY, _GROUP_STEP = 18_000, 100
_VERSION_STEP = 15
_UID_SPACE = uuid.UUID("b1f6f9c6-7a43-4b39-a6f4-6f3f0a1c7d55")


@cache
def group_priorities(registry: KindRegistry) -> Mapping[str, int]:
    """The priorities of built-in groups, in discovery's order."""
    groups = dict.fromkeys(kind.group for kind in registry.all())
    return {group: _FIRST_GROUP_PRIORITY - _GROUP_STEP * index for index, group in enumerate(groups)}


@cache
def _specs(registry: KindRegistry, is_ring0: bool) -> Mapping[str, Object]:
    """The specs by the name of their APIService, in order of names."""
    versions: dict[str, dict[str, None]] = {}
    for kind in registry.all():
        if is_ring0 or kind.scope is not Scope.RING0:
            versions.setdefault(kind.group, {})[kind.version] = None
    priorities = group_priorities(registry)
    specs: dict[str, Object] = {}
    for group, names in versions.items():
        for index, version in enumerate(names):
            spec: Object = {"group": group} if group else {}
            spec |= {"version": version, "groupPriorityMinimum": priorities[group]}
            spec["versionPriority"] = _VERSION_STEP * (len(names) - index)
            specs[f"{version}.{group}"] = spec
    return dict(sorted(specs.items()))


def has(registry: KindRegistry, group: str, version: str) -> bool:
    """Whether a built-in kind has this group and version, in ring0 at least."""
    return f"{version}.{group}" in _specs(registry, True)


def entry(registry: KindRegistry, key: Key, reader: CacheReader) -> CacheEntry | None:
    """The local APIService at `key`; None if there is none."""
    spec = _specs(registry, key.tenant == SYSTEM).get(key.name)
    return None if spec is None or key.namespace else _entry(key, spec, builtin.created(key.tenant, reader))


def merged(
    registry: KindRegistry, stored: Iterable[CacheEntry], tenant: TenantId, after: str, reader: CacheReader
) -> Iterator[CacheEntry]:
    """A tenant's APIServices with names after `after`, in order of names. `stored` are all that it has stored."""
    by_name = {each.key.name: each for each in stored}
    since = builtin.created(tenant, reader)
    specs = _specs(registry, tenant == SYSTEM)
    for name in sorted({*by_name, *specs}):
        if name > after:
            yield by_name.get(name) or _entry(Key(API_SERVICES, tenant, "", name), specs[name], since)


def _entry(key: Key, spec: Object, since: str) -> CacheEntry:
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": since,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    metadata = {
        "name": key.name,
        "tenant": key.tenant,
        "selfLink": f"/apis/apiregistration.k8s.io/v1/tenants/{key.tenant}/apiservices/{key.name}",
        "uid": str(uuid.uuid5(_UID_SPACE, f"{key.tenant}/{key.name}")),
        "creationTimestamp": since,
        "resourceVersion": "0",
        "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
    }
    shown = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": metadata,
        "spec": spec,
        "status": {"conditions": [condition]},
    }
    return CacheEntry(key, Revision(ABSENT), encode(shown))
