"""The agent's side of the CNI plugin: a socket in its own folder, for root alone.

Requests end in the same `attach` and `detach` as the agent's own pods: what is made is the same, and is found again
in the same records.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from alcove.agent.cni.plugin import UNDECODABLE
from alcove.agent.cni.request import (
    ALREADY_THERE,
    NOT_AS_WRITTEN,
    NOT_AVAILABLE,
    TRY_LATER,
    UNKNOWN_CONTAINER,
    CniError,
    CniPodRef,
    CniRequest,
    Command,
    read,
)
from alcove.agent.cni.result import differs, result_of
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

Answer = dict[str, Any]


class CniServer:
    def __init__(self, network: NodeNetwork, planes: Planes, path: Path) -> None:
        self._network = network
        self._planes = planes
        self._path = path
        self._turns: dict[str, asyncio.Lock] = {}
        """One request for a container at a time."""

    async def run(self) -> None:
        """Until cancelled. A node whose folder has too long a name for a socket does without."""
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._serve, self._path, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            log.warning("no CNI plugin can be served", extra={"path": str(self._path), "error": str(error)})
            return
        finally:
            os.umask(mask)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                line = await reader.readline()
            writer.write(orjson.dumps(await self.answer(line)))
            await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:
            log.info("CNI request lost", extra={"error": str(error)})
        finally:
            writer.close()

    async def answer(self, line: bytes) -> Answer:
        """The result, or the error, as the plugin prints it."""
        version = VERSION_UNKNOWN
        try:
            asked = orjson.loads(line)
            version = asked["config"].get("cniVersion") or version
            request = read(asked["environment"], asked["config"])
            async with self._turn(request.container):
                return await self._carry_out(request)
        except CniError as error:
            found, message, details = error.code, error.message, error.details
        except NetworkNotReady as error:
            found, message, details = TRY_LATER, "the network is not ready", str(error)
        except (ApiError, ClientError) as error:
            found, message, details = TRY_LATER, "the API server does not tell of the pod", str(error)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            found, message, details = UNDECODABLE, "the request cannot be read", str(error)
        return {"cniVersion": version, "code": found, "msg": message, "details": details}

    def _turn(self, container: str) -> asyncio.Lock:
        if len(self._turns) > 1024:
            self._turns = {name: lock for name, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault(container, asyncio.Lock())

    async def _carry_out(self, request: CniRequest) -> Answer:
        match request.command:
            case Command.ADD:
                return await self._add(request)
            case Command.DEL:
                await self._remove(lambda record: self._is_meant(record, request))
            case Command.CHECK:
                await self._check(request)
            case Command.GC:
                await self._remove(lambda record: _attachment_of(record) not in request.valid)
            case Command.STATUS:
                if not self._network.is_running():
                    raise CniError(NOT_AVAILABLE, "the node's network is starting")
        return {}

    async def _add(self, request: CniRequest) -> Answer:
        assert request.pod is not None
        if any(self._is_meant(record, request) for record in self._network.records()):
            raise CniError(ALREADY_THERE, f"{request.container} has an interface {request.interface} already")
        key, pod = await self._pod(request.pod)
        if key in self._network.attached():
            raise CniError(ALREADY_THERE, "the node's agent runs the pod itself")
        path = Path(request.namespace)
        await self._network.attach(key, pod, path, interface=request.interface, container=request.container)
        record = next(each for each in self._network.records() if each.key == key)
        return result_of(record, request.version, self._names(record, pod))

    def _names(self, record: AttachmentRecord, pod: Object) -> resolvconf.ResolvConf:
        told, spec = record.attachment, pod["spec"]
        node = resolvconf.ResolvConf()
        return resolvconf.for_pod(record.key.namespace, spec, told.nameservers, told.domain, node)

    async def _pod(self, ref: CniPodRef) -> tuple[PodKey, Object]:
        own = PlaneId(ref.tenant)
        plane = own if own in self._planes.ids() else HOME
        try:
            pod = await self._planes.client(plane).get(ref.tenant, PODS, ref.name, namespace=ref.namespace)
        except NotFound as error:
            raise CniError(UNKNOWN_CONTAINER, "there is no such pod", str(error)) from error
        uid = pod["metadata"]["uid"]
        if ref.uid and ref.uid != uid:
            raise CniError(UNKNOWN_CONTAINER, "there is another pod of that name", f"its uid is {uid}")
        return PodKey(plane, ref.tenant, ref.namespace, ref.name, uid), pod

    async def _check(self, request: CniRequest) -> None:
        record = next((each for each in self._network.records() if self._is_meant(each, request)), None)
        if record is None:
            raise CniError(UNKNOWN_CONTAINER, f"{request.container} is not attached")
        message = differs(record.attachment, request.previous or {})
        if message:
            raise CniError(NOT_AS_WRITTEN, "the pod's network is not as it was", message)
        if not await self._network.is_attached(record.key):
            raise CniError(NOT_AS_WRITTEN, "the pod's interface is gone")

    async def _remove(self, chosen: Callable[[AttachmentRecord], bool]) -> None:
        """Of what runtimes asked for; the agent's own pods are not theirs to remove."""
        for record in self._network.records():
            if record.container and chosen(record):
                await self._network.detach(record.key)

    def _is_meant(self, record: AttachmentRecord, request: CniRequest) -> bool:
        return bool(record.container) and _attachment_of(record) == (request.container, request.interface)


def _attachment_of(record: AttachmentRecord) -> tuple[str, str]:
    return record.container, record.plugs[0].pod_interface
