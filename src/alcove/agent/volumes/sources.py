"""Plans a pod's volumes from its spec: looks up all objects, but creates nothing.

Volumes that the tenant may not use, or that this node does not support, are rejected here.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from alcove.agent.images.model import Image, ImageFailure
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.trusted_tenants import is_ring0
from alcove.agent.volumes import downward, files, tokens, trust_bundles
from alcove.agent.volumes.credentials import Credentials
from alcove.agent.volumes.errors import VolumeFailure, mount_failure
from alcove.agent.volumes.files import Files
from alcove.agent.volumes.local import SIZE_BYTES_MIN, LocalVolume
from alcove.agent.volumes.pod_certificates import CERTIFICATES_MAX, PodCertificates
from alcove.api import local_volumes, objects, quantity
from alcove.api.errors import ApiError
from alcove.api.kinds.core.pods.totals import pod_limit
from alcove.api.objects import Object
from alcove.client.errors import ClientError

_is_name = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_SECRET_MODE = 0o600

GetImage = Callable[[PodKey, Object, Object], Awaitable[Image]]
"""(key, pod, container) → the image; see `images.pull_policy.ImagePuller.ensure`."""


class ProjectedFiles(Struct, frozen=True):
    """A volume of files that are updated when their sources change."""

    name: str
    files: Files


class EmptyDirMount(Struct, frozen=True):
    name: str
    is_memory: bool
    size_bytes: int
    """Zero if the volume has no limit."""


class HostPathMount(Struct, frozen=True):
    name: str
    source: Object
    read_only: bool = False


class LocalVolumeMount(Struct, frozen=True):
    name: str
    volume: LocalVolume
    read_only: bool
    is_exclusive: bool
    """Whether only one pod may use it (ReadWriteOncePod)."""


class ImageVolumeMount(Struct, frozen=True):
    """An image volume: the files of an image, read-only."""

    name: str
    path: Path
    digest: str


Planned = ProjectedFiles | EmptyDirMount | HostPathMount | LocalVolumeMount | ImageVolumeMount


class PodVolumePlan(Struct, frozen=True):
    volumes: list[Planned]
    credentials: Credentials
    failure: VolumeFailure | None = None
    """The first failure, if the other volumes were planned nevertheless."""


class VolumeSources:
    def __init__(
        self,
        lookup: ObjectLookup,
        clock: Callable[[], float],
        node: str,
        allocatable: Callable[[], Mapping[str, str]],
        image: GetImage | None,
        is_trusted: Callable[[PodKey], bool] = is_ring0,
        threads: TenantThreads | None = None,
    ) -> None:
        """`is_trusted` says whether a pod may have paths of the node."""
        self._lookup = lookup
        self._clock = clock
        self._node = node
        self._allocatable = allocatable
        self._image = image
        self._is_trusted = is_trusted
        self._certificates = PodCertificates(lookup, clock, node, threads or TenantThreads())

    async def plan(self, key: PodKey, pod: Object, known: Credentials) -> PodVolumePlan:
        """The plan for all volumes of the pod. Raises VolumeFailure if anything is missing."""
        _check_certificates(pod)
        renewed = Credentials()
        planned = [await self._plan_volume(key, pod, volume, known, renewed) for volume in _volumes(pod)]
        return PodVolumePlan(planned, renewed)

    async def plan_changing(self, key: PodKey, pod: Object, known: Credentials) -> PodVolumePlan:
        """The plan for volumes whose sources may have changed. A volume whose lookup fails is left out, and
        so unchanged."""
        renewed = Credentials()
        planned: list[Planned] = []
        failure = None
        for volume in _volumes(pod):
            if not volume.keys() & _UPDATED:
                continue
            try:
                planned.append(await self._plan_volume(key, pod, volume, known, renewed))
            except VolumeFailure as error:
                failure = failure or error
        return PodVolumePlan(planned, known.updated(renewed), failure)

    def forget(self, key: PodKey) -> None:
        """Forgets what was requested for a pod."""
        self._certificates.forget(key)

    async def _plan_volume(
        self, key: PodKey, pod: Object, volume: Object, known: Credentials, renewed: Credentials
    ) -> Planned:
        name = str(volume.get("name") or "")
        if not _is_name(name):
            raise VolumeFailure(f"invalid volume name {name!r}")
        kind = next((each for each in volume if each != "name"), "emptyDir")
        source: Object = volume.get(kind) or {}
        try:
            match kind:
                case "emptyDir":
                    return _empty_dir(name, source, pod)
                case "configMap" | "secret" | "downwardAPI" | "projected":
                    mode = source.get("defaultMode")
                    mode = files.MODE if mode is None else mode
                    projected = source if kind == "projected" else {"sources": [{kind: source}]}
                    contents = await self._projected_files(key, pod, name, projected, mode, known, renewed)
                    return ProjectedFiles(name, files.for_group(contents, fs_group(pod)))
                case "persistentVolumeClaim":
                    claim = str(source.get("claimName") or "")
                    return await self._claimed_volume(key, name, claim, bool(source.get("readOnly")), None)
                case "ephemeral":
                    return await self._claimed_volume(key, name, f"{key.name}-{name}", False, pod)
                case "hostPath":
                    self._check_trusted(key, "hostPath volumes are")
                    return HostPathMount(name, source)
                case "image":
                    return await self._image_volume(key, pod, name, source)
        except (VolumeFailure, ImageFailure, ClientError, ApiError) as error:
            raise mount_failure(name, error) from error
        raise mount_failure(name, f"volume type {kind} is not supported on this node")

    async def _projected_files(
        self,
        key: PodKey,
        pod: Object,
        name: str,
        source: Object,
        mode: int,
        known: Credentials,
        renewed: Credentials,
    ) -> Files:
        contents: Files = {}
        for number, each in enumerate(source.get("sources") or ()):
            slot = f"{name}/{number}"
            for kind, part in each.items():
                match kind:
                    case "configMap":
                        config_map = await self._lookup.config_map(key, part.get("name") or "")
                        contents |= files.from_config_map(config_map, part, mode)
                    case "secret":
                        secret_name = part.get("secretName") or part.get("name") or ""
                        contents |= files.from_secret(await self._lookup.secret(key, secret_name), part, mode)
                    case "downwardAPI":
                        contents |= self._downward(pod, part, mode)
                    case "serviceAccountToken":
                        token = await tokens.renewed(
                            self._lookup, key, pod, part, known.tokens.get(slot), self._clock()
                        )
                        renewed.tokens[slot] = token
                        text = token.token.encode()
                        contents |= files.file(part.get("path") or "", text, *_secret_mode(pod, mode))
                    case "podCertificate":
                        certificate = await self._certificates.current(
                            key, pod, slot, part, known.certificates.get(slot)
                        )
                        renewed.certificates[slot] = certificate
                        contents |= certificate.projected(part, *_secret_mode(pod, mode))
                    case "clusterTrustBundle":
                        contents |= await trust_bundles.projected(self._lookup, key, part, mode)
                    case _:
                        raise VolumeFailure(f"projected volume source {kind} is not supported on this node")
        return contents

    def _downward(self, pod: Object, source: Object, mode: int) -> Files:
        contents: Files = {}
        for item in source.get("items") or ():
            if "fieldRef" in item:
                text = downward.field(pod, item["fieldRef"].get("fieldPath") or "")
            else:
                text = downward.resource(pod, item.get("resourceFieldRef") or {}, self._allocatable())
            item_mode = item.get("mode")
            contents |= files.file(
                item.get("path") or "", text.encode(), mode if item_mode is None else item_mode
            )
        return contents

    async def _claimed_volume(
        self, key: PodKey, name: str, claim_name: str, read_only: bool, owner_pod: Object | None
    ) -> Planned:
        """With `owner_pod`, the claim must have been created for this pod (ephemeral volume)."""
        claim = await self._lookup.claim(key, claim_name)
        if claim is None:
            raise VolumeFailure(f'persistentvolumeclaim "{claim_name}" not found')
        if owner_pod is not None and not _is_owned_by(claim, key.uid):
            raise VolumeFailure(f'PVC "{claim_name}" was not created for pod "{key.name}" (pod is not owner)')
        volume_name = objects.get(claim, "spec", "volumeName", default="")
        if not volume_name or objects.get(claim, "status", "phase") != "Bound":
            raise VolumeFailure(f'PVC "{claim_name}" is not bound')
        volume = await self._lookup.volume(key, volume_name)
        ref = objects.get(volume, "spec", "claimRef", default={}) if volume else {}
        expected = (key.namespace, claim_name, claim["metadata"]["uid"])
        if volume is None or (ref.get("namespace"), ref.get("name"), ref.get("uid")) != expected:
            raise VolumeFailure(f'persistentvolume "{volume_name}" is not bound to PVC "{claim_name}"')
        return self._persistent(key, name, volume, read_only)

    def _persistent(self, key: PodKey, name: str, volume: Object, read_only: bool) -> Planned:
        spec, uid = volume["spec"], volume["metadata"]["uid"]
        modes = spec.get("accessModes") or ()
        read_only = read_only or set(modes) == {"ReadOnlyMany"}
        if spec.get("volumeMode") == "Block":
            raise VolumeFailure("volumeMode Block is not supported on this node")
        if local_volumes.is_local(volume):
            node = local_volumes.node_of(volume)
            if node != self._node:
                raise VolumeFailure(f'volume "{objects.name(volume)}" is on node "{node}", not on this node')
            size = quantity.whole(objects.get(spec, "capacity", "storage", default="0"))
            local_volume = LocalVolume(key.tenant, objects.name(volume), uid, max(size, SIZE_BYTES_MIN))
            return LocalVolumeMount(name, local_volume, read_only, "ReadWriteOncePod" in modes)
        for kind in ("hostPath", "local"):
            if kind in spec:
                self._check_trusted(key, f"{kind} volumes are")
                needed = {"type": "Directory"} if kind == "local" else {}
                return HostPathMount(name, {**spec[kind], **needed}, read_only)
        raise VolumeFailure("only local volumes are supported on this node")

    def _check_trusted(self, key: PodKey, description: str) -> None:
        if not self._is_trusted(key):
            raise VolumeFailure(f"{description} not allowed for pods of tenants")

    async def _image_volume(self, key: PodKey, pod: Object, name: str, source: Object) -> Planned:
        if self._image is None:
            raise VolumeFailure("image volumes are not supported on this node")
        container = {"image": source.get("reference"), "imagePullPolicy": source.get("pullPolicy")}
        image = await self._image(key, pod, container)
        return ImageVolumeMount(name, image.rootfs, image.digest)


_UPDATED = {"configMap", "secret", "downwardAPI", "projected", "persistentVolumeClaim", "ephemeral"}


def fs_group(pod: Object) -> int | None:
    group = objects.get(pod, "spec", "securityContext", "fsGroup")
    return None if group is None else int(group)


def _volumes(pod: Object) -> list[Object]:
    return objects.get(pod, "spec", "volumes", default=[])  # type: ignore[no-any-return]


def _empty_dir(name: str, source: Object, pod: Object) -> EmptyDirMount:
    medium = source.get("medium") or ""
    if medium not in ("", "Memory"):
        raise VolumeFailure(f"emptyDir of medium {medium} is not supported on this node")
    limit = quantity.whole(source["sizeLimit"]) if source.get("sizeLimit") else 0
    if medium == "Memory":
        most = pod_limit(pod["spec"], "memory")
        limits = [each for each in (limit, most.value if most else 0) if each]
        return EmptyDirMount(name, True, min(limits, default=0))
    return EmptyDirMount(name, False, limit)


def _is_owned_by(claim: Object, uid: str) -> bool:
    owners = objects.get(claim, "metadata", "ownerReferences", default=())
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)


def _secret_mode(pod: Object, mode: int) -> tuple[int, int]:
    """Mode and owner of files with credentials: readable only by the pod's user if the spec defines one user."""
    user = _common_user(pod)
    is_narrow = user is not None or fs_group(pod) is not None
    return _SECRET_MODE if is_narrow else mode, user or 0


def _check_certificates(pod: Object) -> None:
    """Raises VolumeFailure if the pod asks for too many."""
    sources = (
        each for volume in _volumes(pod) for each in (volume.get("projected") or {}).get("sources") or ()
    )
    if sum("podCertificate" in each for each in sources) > CERTIFICATES_MAX:
        raise VolumeFailure(f"volumes of a pod may have {CERTIFICATES_MAX} podCertificate sources together")


def _common_user(pod: Object) -> int | None:
    """The user that all containers run as; None if there are several, or if the images define it."""
    shared = objects.get(pod, "spec", "securityContext", "runAsUser")
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    users = {objects.get(each, "securityContext", "runAsUser", default=shared) for each in containers}
    return users.pop() if len(users) == 1 else None
