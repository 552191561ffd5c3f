"""The documents and their paths: `/openapi/v2`, `/openapi/v3` and one document per group version below it.

A document is made when it is first asked for, in a thread, and kept encoded; tenants without CRDs
share all of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

import orjson

from alcove.api.errors import NotFound
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema import kubernetes_schemas
from alcove.apiserver.call import ApiCall
from alcove.apiserver.discovery import visible
from alcove.apiserver.openapi import paths, protobuf, schemas
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.responses import json_response
from alcove.apiserver.routes import KUBERNETES_VERSION
from alcove.http.messages import JSON, HttpResponse

KEPT_BYTES_MAX = 24 * 1024 * 1024

_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_INFO = {"title": "Alcove", "version": KUBERNETES_VERSION}


class OpenApi:
    def __init__(self, kinds: ServedKinds) -> None:
        self._kinds = kinds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._making = asyncio.Lock()

    def index(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v3."""
        found = _by_version(visible(self._kinds.all(call.tenant), call.tenant))
        prefix = f"/tenants/{call.target.tenant}" if call.target.tenant else ""
        told = {
            path: {"serverRelativeURL": f"{prefix}/openapi/v3/{path}?hash={_mark(kinds)}"}
            for path, kinds in found.items()
        }
        return json_response(200, {"paths": told})

    async def version(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v3/apis/GROUP/VERSION."""
        path = call.target.path.removeprefix("/openapi/v3/")
        kinds = _by_version(visible(self._kinds.all(call.tenant), call.tenant)).get(path)
        if kinds is None:
            raise NotFound.path()
        mark = _mark(kinds)
        body = await self._document(f"{path} {mark}", lambda: orjson.dumps(version_document(kinds)))
        return HttpResponse(200, body, JSON, [(b"ETag", b'"%b"' % mark.encode())])

    async def everything(self, call: ApiCall) -> HttpResponse:
        """GET /openapi/v2, as JSON or protobuf."""
        kinds = visible(self._kinds.all(call.tenant), call.tenant)
        mark = f"v2 {_mark(kinds)}"
        if _PROTOBUF not in call.request.headers.get("accept", ""):
            body = await self._document(mark, lambda: orjson.dumps(whole_document(kinds)))
            return HttpResponse(200, body, JSON)
        body = await self._document(f"{mark} protobuf", lambda: protobuf.encode(whole_document(kinds)))
        # The name clients ask by is no valid media type: what is answered has a dot for its @.
        return HttpResponse(200, body, _PROTOBUF.replace("@", ".").encode())

    async def _document(self, mark: str, make: Callable[[], bytes]) -> bytes:
        if mark not in self._kept:
            # One at a time: making one takes memory and a core.
            async with self._making:
                if mark not in self._kept:
                    self._keep(mark, await asyncio.to_thread(make))
        self._kept.move_to_end(mark)
        return self._kept[mark]

    def _keep(self, mark: str, body: bytes) -> None:
        self._kept[mark] = body
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > KEPT_BYTES_MAX:
            self._kept.popitem(last=False)


def _by_version(kinds: Sequence[Kind]) -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        found.setdefault(path, []).append(kind)
    return found


def _mark(kinds: Sequence[Kind]) -> str:
    """Changes when the kinds do: a stock kind is known by its name, a custom one by its schema."""
    told = hashlib.sha256()
    for kind in kinds:
        told.update(f"{kind.api_version} {kind.kind} {kind.scope} {kind.verbs} {kind.subresources}".encode())
        if not kind.definition:
            told.update(orjson.dumps(kind.schema.raw))
    return told.hexdigest()[:32].upper()


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
