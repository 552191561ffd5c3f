"""Discovery: the groups, versions and resources that a tenant is served, as lists and in the aggregated form.

Tenants without CRDs share one encoding: encodings are cached by the kinds they contain. For tenants with aggregated
APIs, what their servers tell of them is added.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import orjson
from msgspec import structs

from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver import nodes
from alcove.apiserver.aggregation import merging
from alcove.apiserver.aggregation.documents import ExtensionDocuments
from alcove.apiserver.aggregation.local_services import CUSTOM_GROUP_PRIORITY
from alcove.apiserver.aggregation.registrations import Registration, Registrations
from alcove.apiserver.call import ApiCall
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.reader import ServedKinds
from alcove.http.messages import JSON, HttpResponse

ENCODINGS_MAX = 64
_BYTES_PER_KIND = 100
"""How large a document counts for each kind in it: a tenant with hundreds of CRDs has it made in a thread."""

_AGGREGATED = frozenset({"g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"})
_JSON_TYPES = frozenset({"application/json", "application/*", "*/*"})
_AGGREGATED_TYPE = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    def __init__(
        self,
        kinds: ServedKinds,
        registrations: Registrations,
        documents: ExtensionDocuments,
        threads: ComputeThreads,
        group_priorities: Mapping[str, int],
    ) -> None:
        """`group_priorities` are those of built-in groups."""
        self._kinds = kinds
        self._registrations = registrations
        self._documents = documents
        self._threads = threads
        self._group_priorities = group_priorities
        self._cached: OrderedDict[int, tuple[Sequence[Kind], dict[str, bytes]]] = OrderedDict()

    def answer(self, call: ApiCall) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """Serves all paths under /api and /apis that name no resource."""
        path = call.target.path
        is_aggregated = path in ("/api", "/apis") and prefers_aggregated(
            call.request.headers.get("accept", "")
        )
        document_path = f"{path}?aggregated" if is_aggregated else path
        if path.startswith("/apis") and (registered := self._registrations.every(call.tenant)):
            return self._with_extensions(call, document_path, registered)
        kinds, documents = self._documents_of(call.tenant)
        if document_path not in documents:
            return self._make(call, document_path, kinds, documents)
        return self._response(call, documents[document_path], is_aggregated)

    async def _make(
        self, call: ApiCall, path: str, kinds: Sequence[Kind], documents: dict[str, bytes]
    ) -> HttpResponse:
        """Makes a document and keeps it. Raises NotFound."""

        def made() -> bytes:
            return orjson.dumps(document(visible(kinds, call.tenant), path))

        body = await self._threads.for_size(call.identity.tenant, _BYTES_PER_KIND * len(kinds), made)
        documents[path] = body
        return self._response(call, body, path.endswith("?aggregated"))

    async def _with_extensions(
        self, call: ApiCall, path: str, registered: Sequence[Registration]
    ) -> HttpResponse:
        """The documents with a tenant's aggregated APIs. Raises NotFound."""
        is_aggregated = path == "/apis?aggregated"
        bodies = await self._documents.get(call.tenant, registered) if is_aggregated else []
        kinds = self._kinds.all(call.tenant)

        def merge() -> bytes:
            found = list(zip(registered, bodies, strict=True)) if is_aggregated else []
            shown = visible(kinds, call.tenant)
            priority = partial(self._priority, {kind.group for kind in shown})
            return orjson.dumps(_merged(shown, path, registered, found, priority))

        size = _BYTES_PER_KIND * len(kinds) + sum(len(each or b"") for each in bodies)
        body = await self._threads.for_size(call.identity.tenant, size, merge)
        return self._response(call, body, is_aggregated)

    def _priority(self, local: Collection[str], group: str) -> int:
        """Of a group of this server; 0 for another."""
        return self._group_priorities.get(group, CUSTOM_GROUP_PRIORITY) if group in local else 0

    def _response(self, call: ApiCall, body: bytes, is_aggregated: bool) -> HttpResponse:
        if not is_aggregated:
            return HttpResponse(200, body, JSON)
        tag = b'"%b"' % hashlib.sha256(body).hexdigest().encode()
        headers = [(b"ETag", tag), (b"Vary", b"Accept")]
        if call.request.headers.get("if-none-match", "").encode() == tag:
            return HttpResponse(304, b"", _AGGREGATED_TYPE, headers)
        return HttpResponse(200, body, _AGGREGATED_TYPE, headers)

    def _documents_of(self, tenant: TenantId) -> tuple[Sequence[Kind], dict[str, bytes]]:
        """The tenant's kinds, and the documents of them that are kept, by path."""
        kinds = self._kinds.all(tenant)
        # Two tenants with the same kinds still differ where one of them is ring0.
        cache_key = hash((id(kinds), tenant == SYSTEM))
        cached = self._cached.get(cache_key)
        if cached is None or cached[0] is not kinds:
            cached = self._cached[cache_key] = (kinds, {})
            if len(self._cached) > ENCODINGS_MAX:
                self._cached.popitem(last=False)
        return cached


@lru_cache(maxsize=256)
def prefers_aggregated(accept: str) -> bool:
    """Whether the first form in the Accept header that is served is the aggregated one. Clients before 1.30 ask for its
    version v2beta1, which Kubernetes no longer has, and take the lists instead."""
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in _JSON_TYPES:
            continue
        if _AGGREGATED.issubset(parameters):
            return True
        if not any(each.startswith("as=") for each in parameters):
            return False
    return False


def visible(kinds: Iterable[Kind], tenant: TenantId) -> list[Kind]:
    """The kinds in a tenant's discovery: without ring0's kinds, except nodes, which are read-only."""
    if tenant == SYSTEM:
        return list(kinds)
    return [
        _as_shown(kind) for kind in kinds if kind.scope is not Scope.RING0 or kind.group_resource == NODES
    ]


def _as_shown(kind: Kind) -> Kind:
    if kind.group_resource != NODES:
        return kind
    return structs.replace(kind, verbs=nodes.READ, subresources=())


def document(kinds: Sequence[Kind], path: str) -> Object:
    """The discovery document at `path`. Raises NotFound."""
    groups = _by_group(kinds)
    match path.strip("/").split("/"):
        case ["api"]:
            return {
                "kind": "APIVersions",
                "versions": list(groups.get("", {})),
                "serverAddressByClientCIDRs": [],
            }
        case ["apis"]:
            named = [_group(name, versions) for name, versions in groups.items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
        case ["api?aggregated"]:
            return _aggregated(groups, lambda name: name == "")
        case ["apis?aggregated"]:
            return _aggregated(groups, lambda name: name != "")
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", version] if version in groups.get("", {}):
            return _resource_list("", version, groups[""][version])
        case ["apis", group, version] if version in groups.get(group, {}):
            return _resource_list(group, version, groups[group][version])
    raise NotFound.path()


def _merged(
    kinds: Sequence[Kind],
    path: str,
    registered: Sequence[Registration],
    found: merging.Found,
    priority: merging.GroupPriority,
) -> Object:
    """The document at `path` with registered group versions. Raises NotFound."""
    match path.strip("/").split("/"):
        case ["apis"]:
            return merging.add_groups(document(kinds, path), registered, priority)
        case ["apis?aggregated"]:
            return merging.add_discovered(document(kinds, path), found, priority)
        case ["apis", group] if own := [each for each in registered if each.group == group]:
            is_local = any(kind.group == group for kind in kinds)
            merged = document(kinds, path) if is_local else None
            for registration in merging.by_preference(own):
                merged = merging.add_version(merged, registration)
            return {"kind": "APIGroup", "apiVersion": "v1", **(merged or {})}
    return document(kinds, path)


_Groups = dict[str, dict[str, list[Kind]]]


def _by_group(kinds: Sequence[Kind]) -> _Groups:
    groups: _Groups = {}
    for kind in kinds:
        groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return groups


def _group(name: str, versions: Iterable[str]) -> Object:
    group_versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": group_versions, "preferredVersion": group_versions[0]}


def _resource_list(group: str, version: str, kinds: Iterable[Kind]) -> Object:
    resources: list[Object] = []
    for kind in kinds:
        resources.append(_resource(kind))
        resources += [_subresource(kind, index) for index in range(len(kind.subresources))]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _resource(kind: Kind) -> Object:
    entry: Object = {
        "name": kind.resource,
        "singularName": kind.singular,
        "namespaced": kind.scope is Scope.NAMESPACE,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "watch" in kind.verbs:
        entry["storageVersionHash"] = _storage_version_hash(kind)
    return entry


def _storage_version_hash(kind: Kind) -> str:
    """Changes with the version that objects are stored in: clients learn by it that old objects are to be migrated."""
    version = f"{kind.storage_resource.group}/{kind.storage_version or kind.version}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(version.encode()).digest()[:8]).decode()


def _subresource(kind: Kind, index: int) -> Object:
    sub = kind.subresources[index]
    subresource: Object = {
        "name": f"{kind.resource}/{sub.name}",
        "singularName": "",
        "namespaced": kind.scope is Scope.NAMESPACE,
        "kind": sub.kind.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.kind.group, sub.kind.version) != (kind.group, kind.version):
        subresource["group"], subresource["version"] = sub.kind.group, sub.kind.version
    return subresource


def _aggregated(groups: _Groups, included: Callable[[str], bool]) -> Object:
    items = [
        {"metadata": {"name": name, "creationTimestamp": None}, "versions": _versions(name, versions)}
        for name, versions in groups.items()
        if included(name)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _versions(group: str, versions: dict[str, list[Kind]]) -> list[Object]:
    return [
        {"version": version, "freshness": "Current", "resources": [_discovered(kind) for kind in kinds]}
        for version, kinds in versions.items()
    ]


def _discovered(kind: Kind) -> Object:
    entry: Object = {
        "resource": kind.resource,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.scope is Scope.NAMESPACE else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.kind.group, "version": sub.kind.version, "kind": sub.kind.kind},
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return entry
