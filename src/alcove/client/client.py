"""Requests to one API server, as verbs on resources. The tenant is always explicit.

    pod = await client.get(tenant, PODS, "web", namespace="default")
    pod = await client.create(tenant, PODS, {"metadata": {...}, "spec": {...}}, namespace="default")
    pod = await client.update(tenant, PODS, pod, subresource="status")
    await client.delete(tenant, PODS, "web", namespace="default", uid=pod["metadata"]["uid"])

Error responses are raised as `api.errors.ApiError`, missing responses as `client.errors.Unreachable`.
Requests to busy servers and on lost connections are retried within bounds (`client/retry.py`), so a caller
need not retry immediately. Objects are plain dicts that belong to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

import orjson
from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import ApiError, from_status
from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.client import paths, retry
from alcove.client.errors import MalformedResponse, PlaneStopped, Unreachable
from alcove.client.resources import Resource
from alcove.client.transport import Transport
from alcove.client.watch_events import LINE_BYTES_MAX, Watch, check_values, refusal_of, revision_of
from alcove.component import request_ids
from alcove.http.client import ReceivedResponse

PAGES_MAX = 20_000
JSON = "application/json"
METADATA_ONE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

Objects = list[Object]
Wrote = Callable[[TenantId, Resource, Revision], None]
Permitted = Callable[[], None]


class Patch(Enum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(Enum):
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class ListSelection(Struct, frozen=True):
    """The objects of a resource that a list or watch selects."""

    resource: Resource
    namespace: str = ""
    """Empty for all namespaces."""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def query(self) -> dict[str, str]:
        return {"labelSelector": self.labels, "fieldSelector": self.fields}


class Page(Struct, frozen=True):
    items: list[Object]
    revision: Revision
    continue_: str = ""
    """Empty for the last page."""


class ResponseLimits(Struct, frozen=True, kw_only=True):
    """What is read of one server's responses; the transport bounds each of them as a whole."""

    line_bytes_max: int = LINE_BYTES_MAX
    """Of an event of a watch."""
    pages_max: int = PAGES_MAX
    """Of a list."""
    event_values_max: int | None = None
    """Values in an event of a watch; None if they need not be counted."""
    response_values_max: int | None = None
    """Values in another response: a page of a list has many objects."""


DEDICATED = ResponseLimits(
    line_bytes_max=4 << 20, pages_max=64, event_values_max=120_000, response_values_max=480_000
)
"""For the API server of a dedicated plane."""


class Client:
    """`wrote` is called with the revision of every successful write. `permitted` is called before each write
    and raises if this process may no longer write because it lost its lease. `fence` names the lease and its
    holder to the server, which rejects writes of former holders."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "alcove",
        policy: retry.RetryPolicy | None = None,
        wrote: Wrote = lambda _tenant, _resource, _revision: None,
        permitted: Permitted = lambda: None,
        fence: str = "",
        limits: ResponseLimits | None = None,
    ) -> None:
        self._transport = transport
        self._limits = limits or ResponseLimits()
        self._policy = policy or retry.RetryPolicy()
        self._wrote = wrote
        self._permitted = permitted
        self._headers = {"User-Agent": user_agent, "Accept": JSON}
        self._fence = {"Alcove-Fence": fence} if fence else {}

    # Reading

    async def get(
        self, tenant: TenantId, resource: Resource, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Object:
        path = paths.one(tenant, resource, namespace, name, subresource)
        found = await self.request("GET", path)
        if not subresource:
            _check_identity(found, tenant, resource, namespace, name)
        return found

    async def page(
        self, tenant: TenantId, selection: ListSelection, *, limit: int = 500, continue_: str = ""
    ) -> Page:
        """One page of a list. `tenant` may be `all`."""
        path = paths.collection(tenant, selection.resource, selection.namespace)
        query = {**selection.query(), "limit": str(limit), "continue": continue_}
        accept = METADATA_LIST if selection.metadata_only else JSON
        body = await self.request("GET", paths.with_query(path, query), headers={"Accept": accept})
        items, next_page = body.get("items") or [], objects.get(body, "metadata", "continue", default="")
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise MalformedResponse(f"GET {path}: the response is not a list of objects")
        revision = revision_of(body) if objects.get(body, "metadata", "resourceVersion") else Revision(0)
        return Page(items, revision, str(next_page))

    async def list(
        self,
        tenant: TenantId,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> list[Object]:
        """All selected objects, read page by page."""
        selection = ListSelection(resource, namespace, labels, fields, metadata_only)
        page = await self.page(tenant, selection)
        items = page.items
        pages = 1
        while page.continue_:
            if pages == self._limits.pages_max:
                raise MalformedResponse(f"the list of {resource} has more than {pages} pages")
            page = await self.page(tenant, selection, continue_=page.continue_)
            items += page.items
            pages += 1
        return items

    @asynccontextmanager
    async def watch(
        self,
        tenant: TenantId,
        selection: ListSelection,
        *,
        after: Revision | None,
        seconds_max: int,
        shard: TenantShard | None = None,
    ) -> AsyncIterator[Watch]:
        """Changes after a revision; with None first all existing objects, then a bookmark, then changes. If `tenant`
        is `all`, `shard` selects some of the tenants.

        Raises ApiError if the server rejects the watch.
        """
        path = paths.collection(tenant, selection.resource, selection.namespace)
        query = {**selection.query(), "watch": "1", "allowWatchBookmarks": "1"}
        query["timeoutSeconds"] = str(seconds_max)
        if shard is not None:
            query["tenantShard"] = str(shard)
        if after is None:
            query |= {"sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = str(after)
        accept = METADATA_ONE if selection.metadata_only else JSON
        headers = {**self._headers, "Accept": accept}
        async with self._transport.stream(paths.with_query(path, query), headers) as stream:
            if stream.status != 200:
                refusal = ReceivedResponse(stream.status, stream.headers, await refusal_of(stream))
                raise _error_from(refusal)
            yield Watch(stream, self._limits.line_bytes_max, self._limits.event_values_max)

    # Writing

    async def create(
        self,
        tenant: TenantId,
        resource: Resource,
        obj: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> Object:
        """`name` and `subresource` are for subresources that are created: bindings, evictions, tokens."""
        namespace = namespace or objects.namespace(obj)
        path = paths.collection(tenant, resource, namespace)
        if subresource:
            path = paths.one(tenant, resource, namespace, name, subresource)
        return await self._write(tenant, resource, "POST", path, obj)

    async def update(
        self, tenant: TenantId, resource: Resource, obj: Object, *, subresource: str = ""
    ) -> Object:
        """Replace the object, or its subresource, if its resourceVersion is still current."""
        path = paths.one(tenant, resource, objects.namespace(obj), objects.name(obj), subresource)
        return await self._write(tenant, resource, "PUT", path, obj)

    async def patch(
        self,
        tenant: TenantId,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        kind: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> Object:
        path = paths.one(tenant, resource, namespace, name, subresource)
        return await self._write(tenant, resource, "PATCH", path, patch, kind.value)

    async def apply(
        self,
        tenant: TenantId,
        resource: Resource,
        obj: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> Object:
        """Server-side apply: create or update the object so that it has these fields, owned by `manager`."""
        path = paths.one(tenant, resource, objects.namespace(obj), objects.name(obj), subresource)
        query = {"fieldManager": manager, "force": "true" if force else ""}
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        path = paths.with_query(path, query)
        return await self._write(tenant, resource, "PATCH", path, manifest, Patch.APPLY.value)

    async def delete(
        self,
        tenant: TenantId,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        revision: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> Object:
        """Delete the object; raises Conflict if `uid` or `revision` is given and differs. Returns the object
        while finalizers or the grace period delay its deletion, or a Status once it is deleted."""
        path = paths.one(tenant, resource, namespace, name)
        options = _delete_options(uid, revision, propagation, grace_seconds)
        return await self._write(tenant, resource, "DELETE", path, options)

    async def delete_collection(
        self,
        tenant: TenantId,
        selection: ListSelection,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> Objects:
        """Delete the selected objects and return them."""
        path = paths.collection(tenant, selection.resource, selection.namespace)
        options = _delete_options("", "", propagation, grace_seconds)
        path = paths.with_query(path, selection.query())
        body = await self._write(tenant, selection.resource, "DELETE", path, options)
        items = body.get("items") or []
        return items if isinstance(items, list) else []

    async def _write(
        self, tenant: TenantId, resource: Resource, method: str, path: str, value: Any, kind: str = JSON
    ) -> Object:
        self._permitted()
        body = orjson.dumps(value) if value is not None else b""
        headers = {**self._fence, "Content-Type": kind} if body else self._fence
        response = await self.request(method, path, body, headers)
        if objects.get(response, "metadata", "resourceVersion"):
            self._wrote(tenant, resource, revision_of(response))
        return response

    async def send(self, method: str, path: str, body: bytes = b"") -> Object:
        """Any write, under the fence."""
        self._permitted()
        return await self.request(method, path, body, self._fence)

    # Any request

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Object:
        """Send any request and return the decoded response. Raises ApiError, Unreachable and
        MalformedResponse."""
        response = await self._send(
            method, path, body, {**self._headers, **request_ids.outgoing(), **(headers or {})}
        )
        check_values(response.body, self._limits.response_values_max)
        if response.status >= 400:
            raise _error_from(response)
        if response.status >= 300:
            # Redirects are not followed: they would decide where this process sends its requests.
            raise MalformedResponse(f"{method} {path}: unexpected status {response.status}")
        value = _decoded(response)
        if not isinstance(value, dict):
            raise MalformedResponse(f"{method} {path}: the response is not a JSON object")
        return value

    async def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> ReceivedResponse:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._transport.request(method, path, headers, body)
            except PlaneStopped:
                raise
            except Unreachable as error:
                wait = retry.wait_seconds(self._policy, attempt, retry.AttemptOutcome(method, error=error))
                if wait is None:
                    raise
            else:
                if response.status < 400:
                    return response
                wait = retry.wait_seconds(self._policy, attempt, retry.AttemptOutcome(method, response))
                if wait is None:
                    return response
            await asyncio.sleep(wait)
            if method != "GET":
                self._permitted()


def _delete_options(
    uid: str, revision: str, propagation: Propagation | None, grace_seconds: int | None
) -> Object | None:
    preconditions = {"uid": uid, "resourceVersion": revision}
    preconditions = {field: value for field, value in preconditions.items() if value}
    options: Object = {}
    if preconditions:
        options["preconditions"] = preconditions
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None


def _check_identity(found: Object, tenant: TenantId, resource: Resource, namespace: str, name: str) -> None:
    """Raises MalformedResponse for another object than the one that was asked for."""
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or (
        metadata.get("name") != name
        or (metadata.get("namespace") or "") != (namespace if resource.namespaced else "")
        or metadata.get("tenant", tenant) != tenant
        or not isinstance(metadata.get("uid", ""), str)
    ):
        raise MalformedResponse(f"the server sent another object than {resource} {name}")
    if "resourceVersion" in metadata:
        revision_of(found)


def _decoded(response: ReceivedResponse) -> Any:
    try:
        return orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        raise MalformedResponse(f"the response ({response.status}) is not JSON") from error


def _error_from(response: ReceivedResponse) -> ApiError:
    """The server's Status as an error; for a response without one, as of a proxy, an error of the same
    code."""
    try:
        value = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and value.get("kind") == "Status":
        return from_status(value)
    return from_status(
        {"code": response.status, "message": f"the server responded with status {response.status}"}
    )
