"""The executor of pods that run processes: creates and removes their network, volumes, sandbox and
containers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from msgspec import structs

from alcove.agent.images.model import Image, ImageUnavailable
from alcove.agent.images.snapshots import MountFailed
from alcove.agent.logs import rotation
from alcove.agent.network.attachment import Attachment, NetworkError
from alcove.agent.network.network_dialer import connect_loopback, connect_node
from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels, files, sandbox_sysctls, user_namespaces
from alcove.agent.pods.admission import check_apparmor, check_security
from alcove.agent.pods.container_contexts import ContainerContexts, has_user_namespace
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.container_processes import first_process
from alcove.agent.pods.containers import ContainerRole, DesiredContainer
from alcove.agent.pods.environment import ContainerConfigError
from alcove.agent.pods.executor import ContainerStartError, PodRejected, PodSetupError
from alcove.agent.pods.node_services import NodeServices
from alcove.agent.runtime.base import (
    ContainerId,
    ContainerRuntime,
    ContainerSpec,
    ContainerStatus,
    Isolation,
    SpecRefused,
)
from alcove.agent.runtime.config import (
    BindMount,
    MemoryVolume,
    NamespacePaths,
    container_config,
    network_sysctls,
    sandbox_config,
    sandbox_namespaces,
    shared_namespaces,
)
from alcove.agent.runtime.expand import environment
from alcove.agent.runtime.resources import (
    cgroup_limits_of,
    container_limits_of,
    pod_limits_of,
    unenforced_limits,
)
from alcove.agent.runtime.users import resolve
from alcove.agent.trusted_tenants import is_ring0
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.mounts import VolumePath, container_mounts, sandbox_volumes
from alcove.api.errors import ApiError
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.component import host_names
from alcove.dataplane import namespaces
from alcove.dns import resolvconf
from alcove.http.byte_streams import SocketStream
from alcove.http.tls_transport import TlsSession

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)
_NOT_ATTACHED = Attachment("", ())


class RealPodExecutor:
    def __init__(
        self,
        key: PodKey,
        services: NodeServices,
        runtime: ContainerRuntime,
        existing: Sequence[ContainerStatus],
    ) -> None:
        """`existing` are the pod's containers in `runtime`; if there are none, `set_up` chooses the
        runtime."""
        self.key = key
        self.runtime = runtime
        self._services = services
        self._is_chosen = bool(existing)
        self._image_digests: dict[ContainerId, str] = {}
        """All sandboxes and containers in the runtime, each with its image's digest."""
        for status in existing:
            mark = container_labels.read(status.labels)
            self._image_digests[status.id] = mark.digest if mark is not None else ""
        self._with_sysctls: set[ContainerId] = set()
        """Sandboxes in which this process has set the pod's sysctls."""
        self._fetched: dict[ContainerId, tuple[Image, Sequence[tuple[str, str]]]] = {}
        self._attachment = _NOT_ATTACHED
        self._volumes: Mapping[str, VolumePath] = {}
        self._files = services.folders.files(key)
        self._group = services.pod_group(key)
        self._contexts = ContainerContexts(key, services)
        self._limited_spec: Object | None = None
        """The spec whose limits the pod's cgroup has; None if it was set by an earlier agent."""

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._attachment.addresses

    @property
    def images(self) -> set[str]:
        """Digests of the images in use."""
        return {digest for digest in self._image_digests.values() if digest}

    # The pod

    async def set_up(self, pod: Object) -> None:
        spec = pod["spec"]
        await self._services.trusted.synced()
        is_trusted = self._services.trusted.includes(self.key)
        if not self._is_chosen:
            self.runtime = await self._services.classes.pick(self.key, spec)
        check_security(spec, self.runtime.isolation, is_trusted=is_trusted)
        check_apparmor(spec, self.runtime.isolation, has_apparmor=self._services.has_apparmor)
        if has_user_namespace(self.runtime.isolation, spec):
            user_namespaces.check(
                self.runtime.handler, self._services.folders.data, is_ring0=is_ring0(self.key)
            )
        attaching = asyncio.ensure_future(self._attach(pod))
        try:
            await self._mount(pod)
        except BaseException:
            attaching.cancel()
            await asyncio.gather(attaching, return_exceptions=True)
            raise
        await attaching
        if has_user_namespace(self.runtime.isolation, spec):
            self._apply_sysctls(spec)
        self._limit(spec)
        if self.runtime.isolation is Isolation.SANDBOX and (message := unenforced_limits(spec)):
            self._services.note(self.key, "Warning", "LimitsNotEnforced", message)
        self._write_files(pod)

    def _limit(self, spec: Object) -> None:
        cgroups, self._limited_spec = self._services.cgroups, spec
        cgroups.ensure(self._group, cgroup_limits_of(spec, self._services.volumes.file_bytes(self.key)))
        cgroups.balance(self._services.tenant_group(self.key))
        cgroups.yield_cpu(self._group)
        self._services.meter.pod_started(self.key, spec)

    async def _attach(self, pod: Object) -> None:
        try:
            self._attachment = await self._services.network.attach(self.key, pod)
        except NetworkError as error:
            raise PodSetupError("FailedCreatePodSandBox", f"pod network is not ready: {error}") from error

    def _apply_sysctls(self, spec: Object) -> None:
        try:
            namespaces.set_sysctls(self._attachment.namespace_path, network_sysctls(spec))
        except OSError as error:
            raise PodSetupError("FailedCreatePodSandBox", f"failed to set sysctls: {error}") from error

    async def _mount(self, pod: Object) -> None:
        try:
            self._volumes = await self._services.volumes.mount(self.key, pod)
        except VolumeFailure as error:
            raise PodSetupError(error.reason, str(error)) from error
        except (ApiError, ClientError) as error:
            raise PodSetupError("FailedMount", str(error)) from error
        if self.runtime.isolation is Isolation.SANDBOX:
            self._volumes = sandbox_volumes(pod["spec"], self._volumes)

    def _write_files(self, pod: Object) -> None:
        attachment = self._attachment
        conf = resolvconf.for_pod(
            self.key.namespace,
            pod["spec"],
            attachment.nameservers,
            attachment.domain,
            self._services.resolv_conf,
        )
        texts = {
            "hosts": files.hosts(pod, attachment.addresses, attachment.domain),
            "hostname": f"{self._hostname(pod)}\n",
            "resolv.conf": conf.text(),
        }
        try:
            files.mount_space(self._files)
            files.write(self._files, texts)
        except OSError as error:
            message = f"failed to write the pod's files: {os.strerror(error.errno or 0)}"
            raise PodSetupError("FailedCreatePodSandBox", message) from error

    def _hostname(self, pod: Object) -> str:
        if pod["spec"].get("hostNetwork"):
            return self._services.node
        return files.uts_name(pod, self._attachment.domain)

    async def refresh(self, pod: Object) -> None:
        before = self._services.volumes.file_bytes(self.key)
        try:
            await self._services.volumes.refresh(self.key, self._with_addresses(pod))
        except (VolumeFailure, ApiError, ClientError) as error:
            self._services.note(self.key, "Warning", "FailedMount", str(error))
        if self._limited_spec is not None and self._services.volumes.file_bytes(self.key) != before:
            try:
                self._limit(self._limited_spec)
            except OSError as error:
                # The pod uses more than is left: it keeps its limit, and is the first to be evicted.
                fields = {"pod": str(self.key), "error": str(error)}
                log.info("failed to take projected files from the pod's memory limit", extra=fields)

    def _with_addresses(self, pod: Object) -> Object:
        """The pod with its addresses in the status: fieldRefs to them must not wait for the status update."""
        status = dict(pod.get("status") or {})
        if self.addresses:
            status |= {"podIP": self.addresses[0], "podIPs": [{"ip": each} for each in self.addresses]}
        hosts = self._services.addresses
        if hosts:
            status |= {"hostIP": hosts[0], "hostIPs": [{"ip": each} for each in hosts]}
        return {**pod, "status": status}

    async def resize(self, pod: Object, running: Mapping[ContainerId, Object]) -> None:
        """Applies the limits of the pod's spec to its cgroups; `running` are the running containers by id."""
        spec = pod["spec"]
        # In version 1 of cgroups, a cgroup may never have a larger CPU quota than the one that it is in.
        is_lower = self._services.cgroups.lowers_cpu(self._group, cgroup_limits_of(spec))
        if not is_lower:
            self._limit(spec)
        await self._resize_containers(spec, running)
        if is_lower:
            self._limit(spec)

    async def _resize_containers(self, spec: Object, running: Mapping[ContainerId, Object]) -> None:
        cgroups = self._services.cgroups
        if self.runtime.isolation is Isolation.SANDBOX:
            for id in self._image_digests:
                if id.count(".") == 1:
                    cgroups.ensure(f"{self._group}/{id}", pod_limits_of(spec))
            for id, container in running.items():
                await self.runtime.show_limits(id, container_limits_of(container, spec))
            return
        for id, container in running.items():
            cgroups.ensure(f"{self._group}/{id}", container_limits_of(container, spec))

    # The sandbox

    async def make_sandbox(self, pod: Object, attempt: int) -> ContainerId:
        id, spec = container_labels.sandbox_id(self.key, attempt), pod["spec"]
        shared = sandbox_namespaces(spec, self._attachment.namespace_path)
        context = self._contexts.context(
            self.runtime.isolation, id, await self._sandbox_root(id, spec), shared, spec
        )
        try:
            config = sandbox_config(spec, context, self._hostname(pod), self._memory_volumes())
        except SpecRefused as error:
            raise PodRejected("PodForbidden", str(error)) from error
        mark = ContainerMark(self.key, "", attempt)
        # A failed sandbox before this one may have removed the addresses from the namespace (gVisor does).
        await self._services.network.restore_addresses(self.key)
        self._image_digests[id] = ""
        await self.runtime.create(
            ContainerSpec(id, id, config, self._services.folders.sandbox_log(self.key), mark.labels())
        )
        return id

    def _memory_volumes(self) -> list[MemoryVolume]:
        """The volumes that the sandbox makes itself."""
        memory = (each.memory for each in self._volumes.values())
        return [each for each in memory if each is not None and self.runtime.isolation is Isolation.SANDBOX]

    async def _sandbox_root(self, id: ContainerId, spec: Object) -> str:
        rootfs = self._services.pause.rootfs
        if not has_user_namespace(self.runtime.isolation, spec):
            return str(rootfs)
        # Only root can read images; the pod's user namespace can access a snapshot.
        try:
            return str(await self._in_thread(self._services.snapshots.mount, id, rootfs))
        except MountFailed as error:
            raise PodSetupError("FailedCreatePodSandBox", str(error)) from error

    async def drop_sandbox(self, id: ContainerId) -> None:
        await self._remove_containers()
        await self._services.network.detach(self.key)
        self._attachment = _NOT_ATTACHED

    # Containers

    async def fetch(self, pod: Object, container: DesiredContainer, attempt: int) -> None:
        id = container_labels.container_id(self.key, container.name, attempt)
        image = await self._image(pod, container)
        self._image_digests[id] = image.digest
        service_variables = self._services.network.environment(self.key, pod)
        volumes = {name: volume.path for name, volume in self._volumes.items()}
        try:
            variables = await self._services.environment.variables(
                self.key, self._with_addresses(pod), container.spec, service_variables, volumes
            )
        except (ApiError, ClientError) as error:
            raise ContainerConfigError(str(error)) from error
        self._fetched[id] = (image, variables)

    async def make_container(
        self, pod: Object, container: DesiredContainer, attempt: int, sandbox: ContainerStatus
    ) -> ContainerMark:
        id = container_labels.container_id(self.key, container.name, attempt)
        container_spec = container.spec
        image, variables = self._fetched.pop(id)
        message = files.make_message(self._files / "messages", f"{container.name}.{attempt}")
        mark = ContainerMark(
            self.key,
            container.name,
            attempt,
            str(container_spec.get("image", "")),
            image.id_as(str(container_spec.get("image", ""))),
            str(message),
            image.config.stop_signal,
            image.digest,
        )
        spec, shared = pod["spec"], await self._shared(pod["spec"], container, sandbox)
        if self.runtime.isolation is Isolation.SANDBOX and sandbox.id not in self._with_sysctls:
            await sandbox_sysctls.apply(self.runtime, sandbox.id, spec)
            self._with_sysctls.add(sandbox.id)
        try:
            user = resolve(spec, container_spec, image.config.user, image.accounts())
            mounts = await self._in_thread(self._mounts, pod, container_spec, message, variables)
            rootfs = await self._in_thread(self._services.snapshots.mount, id, image.rootfs, shared.user)
            context = self._contexts.context(
                self.runtime.isolation, id, str(rootfs), shared, spec, container_spec
            )
            name = self._hostname(pod)
            config = container_config(
                spec, container_spec, image.config, variables, user, mounts, context, name
            )
        except (SpecRefused, VolumeFailure) as error:
            raise ContainerConfigError(str(error)) from error
        except MountFailed as error:
            raise ContainerStartError("Failed", f"Error: {error}", "CreateContainerError") from error
        mark = structs.replace(mark, user=structs.replace(user, home="/"))
        log = self._services.folders.log(self.key, container.name, attempt)
        is_open, is_once = bool(container_spec.get("stdin")), bool(container_spec.get("stdinOnce"))
        await self.runtime.create(ContainerSpec(id, sandbox.id, config, log, mark.labels(), is_open, is_once))
        return mark

    async def _shared(
        self, spec: Object, container: DesiredContainer, sandbox: ContainerStatus
    ) -> NamespacePaths:
        network = self._attachment.namespace_path
        mapping = self._contexts.mapping(self.runtime.isolation, spec)
        shared = shared_namespaces(spec, self.runtime.isolation, network, sandbox.process, mapping)
        target = container.spec.get("targetContainerName")
        if container.role is not ContainerRole.EPHEMERAL or not target or shared.pid:
            return shared
        process = await first_process(self.runtime, self.key, target, self._image_digests)
        return structs.replace(shared, pid=f"/proc/{process}/ns/pid") if process else shared

    async def _image(self, pod: Object, container: DesiredContainer) -> Image:
        def record_event(type_: str, reason: str, message: str) -> None:
            self._services.note(self.key, type_, reason, message)

        try:
            return await self._services.pulls.ensure(self.key, pod, container.spec, record_event)
        except ImageUnavailable as error:
            raise ContainerStartError("", str(error), error.reason, error.retry_seconds) from error

    def _mounts(
        self, pod: Object, container: Object, message: Path, variables: Sequence[tuple[str, str]]
    ) -> list[BindMount]:
        volume_mounts = container_mounts(pod, container, self._volumes, environment(variables))
        path = container.get("terminationMessagePath") or files.TERMINATION_LOG
        node_files = files.mounts(self._files, volume_mounts)
        return [*volume_mounts, *node_files, BindMount(str(message), path)]

    def termination_message(
        self, container: DesiredContainer, mark: ContainerMark, status: ContainerStatus
    ) -> str:
        log = self._services.folders.log(self.key, container.name, mark.attempt)
        return files.termination_message(container.spec, Path(mark.term_message), log, status.exit_code)

    async def discard(self, id: ContainerId, *, with_log: bool = False) -> None:
        await self.runtime.delete(id)
        await self._in_thread(self._services.snapshots.remove, id)
        name = id.removeprefix(f"{self.key.directory_name}.")
        container, _, attempt = name.rpartition(".")
        if with_log and container:
            log = self._services.folders.log(self.key, container, int(attempt))
            await self._in_thread(rotation.remove, log)
        with contextlib.suppress(FileNotFoundError):
            (self._files / "messages" / name).unlink()
        self._image_digests.pop(id, None)
        self._fetched.pop(id, None)

    # Teardown

    async def _remove_containers(self) -> None:
        """Removes sandboxes last; their ids have one dot less."""
        for id in sorted(self._image_digests, key=lambda each: -each.count(".")):
            await self.discard(id)

    async def tear_down(self) -> None:
        services = self._services
        await self._remove_containers()
        services.cgroups.kill(self._group)
        await self._in_thread(services.snapshots.remove_all, self.key.directory_name)
        await services.network.detach(self.key)
        await services.volumes.unmount(self.key)
        services.meter.pod_ended(self.key)
        await services.cgroups.remove_killed(self._group)
        services.cgroups.balance(services.tenant_group(self.key))
        services.pulls.forget(self.key)
        files.unmount_space(self._files)
        await self._in_thread(shutil.rmtree, services.folders.pod(self.key), ignore_errors=True)
        self._attachment, self._volumes = _NOT_ATTACHED, {}

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._services.threads.run(self.key.tenant_key, work, *arguments, **named)

    async def remove_logs(self) -> None:
        await self._in_thread(shutil.rmtree, self._services.folders.logs(self.key), ignore_errors=True)

    async def dial(self, port: int) -> socket.socket:
        attachment = self._attachment
        if attachment.addresses and not attachment.namespace_path:
            return await connect_node(attachment.addresses[0], port)  # The pod uses the host network.
        return await self._services.network.dial(self.key, port)

    async def dial_host(self, host: str, port: int) -> socket.socket:
        if not self._services.trusted.includes(self.key):
            raise PermissionError(f"host {host!r} is not allowed for pods of tenants")
        for address in await asyncio.to_thread(host_names.look_up, host):
            return await connect_node(address, port)
        raise OSError(f"no such host: {host!r}")

    async def handshake(
        self, sock: socket.socket, make_context: Callable[[], ssl.SSLContext], server_name: str
    ) -> TlsSession:
        owner = (self.key.plane, self.key.tenant)
        return await self._services.handshakes.perform(owner, SocketStream(sock), make_context, server_name)

    async def forward(self, port: int) -> socket.socket:
        if self.runtime.isolation is Isolation.NAMESPACES:
            return await connect_loopback(self._attachment.namespace_path, port)
        return await self.dial(port)  # The loopback device is inside the sandbox's kernel.
