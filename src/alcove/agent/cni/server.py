"""The agent's side of the CNI plugin: a Unix socket in the agent's directory that only root can access.

Requests use the same `attach` and `detach` as the agent's own pods, and the same attachment records.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from alcove.agent.cni.plugin import UNDECODABLE
from alcove.agent.cni.protocol import (
    ALREADY_ATTACHED,
    MISMATCH,
    NOT_AVAILABLE,
    TRY_LATER,
    UNKNOWN_CONTAINER,
    CniError,
    CniPodRef,
    CniRequest,
    Command,
    differs,
    read,
    result_of,
)
from alcove.agent.network.attachment import NetworkNotReady
from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.node_network import NodeNetwork
from alcove.agent.podkey import PodKey
from alcove.api.errors import ApiError, NotFound
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.resources import PODS
from alcove.dns import resolvconf

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 1 << 20
READ_SECONDS_MAX = 5.0
VERSION_UNKNOWN = "1.1.0"

Response = dict[str, Any]


class CniServer:
    def __init__(self, network: NodeNetwork, planes: Planes, path: Path) -> None:
        self._network = network
        self._planes = planes
        self._path = path
        self._locks: dict[str, asyncio.Lock] = {}
        """One lock per container: its requests are handled one at a time."""

    async def run(self) -> None:
        """Runs until cancelled. Returns with a warning if the socket cannot be created, e.g. because its path
        is too long."""
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._serve, self._path, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            log.warning(
                "failed to listen for CNI requests", extra={"path": str(self._path), "error": str(error)}
            )
            return
        finally:
            os.umask(mask)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                line = await reader.readline()
            writer.write(orjson.dumps(await self.handle(line)))
            await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:
            log.info("failed to serve CNI request", extra={"error": str(error)})
        finally:
            writer.close()

    async def handle(self, line: bytes) -> Response:
        """Handles one request; returns the result or the error that the plugin prints."""
        version = VERSION_UNKNOWN
        try:
            call = orjson.loads(line)
            version = call["config"].get("cniVersion") or version
            request = read(call["environment"], call["config"])
            async with self._lock(request.container):
                return await self._execute(request)
        except CniError as error:
            code, message, details = error.code, error.message, error.details
        except NetworkNotReady as error:
            code, message, details = TRY_LATER, "network is not ready", str(error)
        except (ApiError, ClientError) as error:
            code, message, details = TRY_LATER, "failed to get the pod from the API server", str(error)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            code, message, details = UNDECODABLE, "invalid request", str(error)
        return {"cniVersion": version, "code": code, "msg": message, "details": details}

    def _lock(self, container: str) -> asyncio.Lock:
        if len(self._locks) > 1024:
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault(container, asyncio.Lock())

    async def _execute(self, request: CniRequest) -> Response:
        match request.command:
            case Command.ADD:
                return await self._add(request)
            case Command.DEL:
                await self._remove(lambda record: self._matches(record, request))
            case Command.CHECK:
                await self._check(request)
            case Command.GC:
                await self._remove(lambda record: _attachment_id(record) not in request.valid)
            case Command.STATUS:
                if not self._network.is_running():
                    raise CniError(NOT_AVAILABLE, "the node's network is not ready")
        return {}

    async def _add(self, request: CniRequest) -> Response:
        assert request.pod is not None
        if any(self._matches(record, request) for record in self._network.records()):
            raise CniError(
                ALREADY_ATTACHED,
                f"container {request.container} already has an interface {request.interface}",
            )
        key, pod = await self._pod(request.pod)
        if key in self._network.attached():
            raise CniError(ALREADY_ATTACHED, "the pod is run by the node agent")
        path = Path(request.namespace)
        await self._network.attach(key, pod, path, interface=request.interface, container=request.container)
        record = next(each for each in self._network.records() if each.key == key)
        return result_of(record, request.version, self._resolv_conf(record, pod))

    def _resolv_conf(self, record: AttachmentRecord, pod: Object) -> resolvconf.ResolvConf:
        attachment, spec = record.attachment, pod["spec"]
        node = resolvconf.ResolvConf()
        return resolvconf.for_pod(record.key.namespace, spec, attachment.nameservers, attachment.domain, node)

    async def _pod(self, ref: CniPodRef) -> tuple[PodKey, Object]:
        tenant_plane = PlaneId(ref.tenant)
        plane = tenant_plane if tenant_plane in self._planes.ids() else HOME
        try:
            pod = await self._planes.client(plane).get(ref.tenant, PODS, ref.name, namespace=ref.namespace)
        except NotFound as error:
            raise CniError(UNKNOWN_CONTAINER, "pod not found", str(error)) from error
        uid = pod["metadata"]["uid"]
        if ref.uid and ref.uid != uid:
            raise CniError(UNKNOWN_CONTAINER, "pod not found: another pod has this name", f"its uid is {uid}")
        return PodKey(plane, ref.tenant, ref.namespace, ref.name, uid), pod

    async def _check(self, request: CniRequest) -> None:
        record = next((each for each in self._network.records() if self._matches(each, request)), None)
        if record is None:
            raise CniError(UNKNOWN_CONTAINER, f"container {request.container} is not attached")
        message = differs(record.attachment, request.previous or {})
        if message:
            raise CniError(MISMATCH, "the pod's network differs from prevResult", message)
        if not await self._network.is_attached(record.key):
            raise CniError(MISMATCH, "the pod's interface is missing")

    async def _remove(self, matches: Callable[[AttachmentRecord], bool]) -> None:
        """Detaches the matching attachments of runtimes; never those of the agent's own pods."""
        for record in self._network.records():
            if record.container and matches(record):
                await self._network.detach(record.key)

    def _matches(self, record: AttachmentRecord, request: CniRequest) -> bool:
        return bool(record.container) and _attachment_id(record) == (request.container, request.interface)


def _attachment_id(record: AttachmentRecord) -> tuple[str, str]:
    return record.container, record.plugs[0].pod_interface
