"""The documents and their paths: `/openapi/v2`, `/openapi/v3` and one document per group version below it.

A document is built on first use, in a thread, and cached in encoded form; tenants without CRDs share all
documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import orjson

from alcove.api.errors import NotFound, ServiceUnavailable
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema import kubernetes_schemas
from alcove.api.weighed_cache import WeighedCache
from alcove.apiserver.aggregation import merging
from alcove.apiserver.aggregation.documents import ExtensionDocuments
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.aggregation.registrations import Registrations
from alcove.apiserver.call import ApiCall
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.discovery import visible
from alcove.apiserver.openapi import paths, protobuf, schemas
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.responses import json_response
from alcove.apiserver.routes import KUBERNETES_VERSION
from alcove.http.messages import JSON, HttpResponse

T = TypeVar("T")

KEPT_BYTES_MAX = 24 * 1024 * 1024
"""Beyond that, the tenant with most loses the documents that nobody has asked for since."""

_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_INFO = {"title": "Alcove", "version": KUBERNETES_VERSION}


class OpenApi:
    def __init__(
        self,
        kinds: ServedKinds,
        threads: ComputeThreads,
        registrations: Registrations,
        extensions: ExtensionDocuments,
        proxy: ExtensionProxy,
    ) -> None:
        self._kinds = kinds
        self._threads = threads
        self._registrations = registrations
        self._extensions = extensions
        self._proxy = proxy
        self._cached: WeighedCache[str, bytes] = WeighedCache(KEPT_BYTES_MAX)

    async def index(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v3."""
        kinds_by_version = _by_version(visible(self._kinds.all(call.tenant), call.tenant))
        prefix = f"/tenants/{call.target.tenant}" if call.target.tenant else ""
        hashes = await self._compute(
            call, lambda: {path: _hash(kinds) for path, kinds in kinds_by_version.items()}
        )
        paths_index = {
            path: {"serverRelativeURL": f"{prefix}/openapi/v3/{path}?hash={kinds_hash}"}
            for path, kinds_hash in hashes.items()
        }
        if found := await self._found(call, "/openapi/v3"):
            paths_index |= await self._compute(call, lambda: merging.openapi_paths(found, prefix))
        return json_response(200, {"paths": paths_index})

    async def version(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v3/apis/GROUP/VERSION."""
        path = call.target.path.removeprefix("/openapi/v3/")
        for registration in self._registrations.every(call.tenant):
            if registration.path == f"/{path}":
                if not registration.is_available:
                    raise ServiceUnavailable("service unavailable")
                return await self._proxy.forward(call, registration, f"/openapi/v3/{path}")
        kinds = _by_version(visible(self._kinds.all(call.tenant), call.tenant)).get(path)
        if kinds is None:
            raise NotFound.path()
        kinds_hash = await self._compute(call, lambda: _hash(kinds))
        if _is_current(call, kinds_hash):
            return _response(304, b"", JSON, kinds_hash)
        body = await self._document(
            call, f"{path} {kinds_hash}", lambda: orjson.dumps(version_document(kinds))
        )
        return _response(200, body, JSON, kinds_hash)

    async def everything(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v2, as JSON or protobuf."""
        kinds = visible(self._kinds.all(call.tenant), call.tenant)
        found = await self._found(call, "/openapi/v2")
        kinds_hash = await self._compute(call, lambda: _hash(kinds, [body or b"" for _, body in found]))
        is_protobuf = _PROTOBUF in call.request.headers.get("accept", "")
        # The name in the Accept header is not a valid media type: the response has a dot instead of the @.
        media_type = _PROTOBUF.replace("@", ".").encode() if is_protobuf else JSON
        tag = f"{kinds_hash}-protobuf" if is_protobuf else kinds_hash
        if _is_current(call, tag):
            return _response(304, b"", media_type, tag)

        def make() -> bytes:
            if is_protobuf:
                return _protobuf(kinds, found)
            return orjson.dumps(merging.merge_v2(whole_document(kinds), found))

        return _response(200, await self._document(call, f"v2 {tag}", make), media_type, tag)

    async def _found(self, call: ApiCall, path: str) -> merging.Found:
        """The documents of the tenant's extension servers at `path`."""
        registered = self._registrations.every(call.tenant)
        if not registered:
            return ()
        return list(zip(registered, await self._extensions.get(call.tenant, registered, path), strict=True))

    async def _compute(self, call: ApiCall, compute: Callable[[], T]) -> T:
        result: T = await self._threads.run(call.identity.tenant, compute)
        return result

    async def _document(self, call: ApiCall, cache_key: str, make: Callable[[], bytes]) -> bytes:
        body = self._cached.get(cache_key)
        if body is None:
            # Documents are built one at a time: another request may have built it meanwhile.
            body = await self._compute(call, lambda: self._cached.get(cache_key) or make())
            self._cached.put(call.identity.tenant, cache_key, body, len(body))
        return body


def _is_current(call: ApiCall, tag: str) -> bool:
    """Whether the client has this document already: clients ask often, and it has megabytes."""
    return call.request.headers.get("if-none-match", "") == f'"{tag}"'


def _response(status: int, body: bytes, media_type: bytes, tag: str) -> HttpResponse:
    return HttpResponse(status, body, media_type, [(b"ETag", f'"{tag}"'.encode()), (b"Vary", b"Accept")])


def _by_version(kinds: Sequence[Kind]) -> dict[str, list[Kind]]:
    kinds_by_version: dict[str, list[Kind]] = {}
    for kind in kinds:
        path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        kinds_by_version.setdefault(path, []).append(kind)
    return kinds_by_version


def _hash(kinds: Sequence[Kind], documents: Iterable[bytes] = ()) -> str:
    """A hash that changes with the kinds, of built-in kinds by name, of custom kinds by name and schema; and with
    documents of extension servers."""
    digest = hashlib.sha256()
    for kind in kinds:
        digest.update(
            f"{kind.api_version} {kind.kind} {kind.scope} {kind.verbs} {kind.subresources}".encode()
        )
        if not kind.definition:
            digest.update(orjson.dumps(kind.schema.raw))
    for document in documents:
        digest.update(hashlib.sha256(document).digest())
    return digest.hexdigest()[:32].upper()


def _protobuf(kinds: Sequence[Kind], found: merging.Found) -> bytes:
    document = whole_document(kinds)
    try:
        return protobuf.encode(merging.merge_v2(document, found))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        # An extension server's document is no OpenAPI.
        return protobuf.encode(document)


def version_document(kinds: Sequence[Kind]) -> Object:
    components = {"schemas": schemas.build(kinds, kubernetes_schemas.documents(), schemas.Dialect.V3)}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths.build(kinds), "components": components}


def whole_document(kinds: Sequence[Kind]) -> Object:
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths.to_v2(paths.build(kinds)),
        "definitions": schemas.build(kinds, kubernetes_schemas.documents(), schemas.Dialect.V2),
    }
