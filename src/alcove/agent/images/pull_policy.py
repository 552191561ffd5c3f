"""Pull policy: whether an image is pulled for a container, with which credentials, and the back-off after
failures.

Reasons and messages are kubelet's. A name without a registry host that the operator loaded (or that is built
in) refers to that image under any pull policy, because there is no registry to pull it from.
"""

import asyncio
import os
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from msgspec import Struct

from alcove.agent.images import credentials, etcd_image, installation
from alcove.agent.images.model import Image, ImageFailure, ImageMissing, ImageUnavailable, ToolMissing
from alcove.agent.images.references import InvalidImageName, full, is_latest, path_of
from alcove.agent.images.store import ImageStore
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.client.keys import HOME

BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 10.0, 300.0
PULLS_PER_TENANT_MAX = 2
"""Concurrent pulls of one tenant, so that its slow registry does not delay other tenants' pods."""
FAILURES_MAX = 4096

RecordPodEvent = Callable[[str, str, str], None]
"""Records an event of the pod: (type, reason, message)."""


def silent(_type: str, _reason: str, _message: str) -> None:
    pass


class _PullFailure(Struct, frozen=True):
    wait_seconds: float
    retry_at: float
    message: str


class ImagePuller:
    def __init__(
        self, store: ImageStore, lookup: ObjectLookup, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._clock = clock
        self._failures: dict[tuple[PodKey, str], _PullFailure] = {}
        self._installing = asyncio.Lock()
        self._semaphores: WeakValueDictionary[TenantId, asyncio.Semaphore] = WeakValueDictionary()

    async def ensure(
        self, key: PodKey, pod: Object, container: Object, record_event: RecordPodEvent = silent
    ) -> Image:
        """The container's image, pulled if necessary. Raises ImageUnavailable with kubelet's reason; the
        caller retries. `pod` is the whole object; `container` needs `image` and `imagePullPolicy` only."""
        name = str(container.get("image") or "")
        try:
            default_policy = "Always" if is_latest(name) else "IfNotPresent"
        except InvalidImageName as error:
            message = f'Failed to apply default image tag "{name}": {error}'
            record_event("Warning", "InspectFailed", message)
            raise ImageUnavailable("InvalidImageName", message) from error
        policy = container.get("imagePullPolicy") or default_policy
        image = await self._installed(key, name, record_event) or self._present(key, name, policy)
        if image is not None:
            self._store.touch(image.digest)
            record_event("Normal", "Pulled", f'Container image "{name}" already present on machine')
            return image
        if policy == "Never":
            message = f'Container image "{name}" is not present with pull policy of Never'
            record_event("Warning", "ErrImageNeverPull", message)
            raise ImageUnavailable("ErrImageNeverPull", message)
        self._check_backoff(key, name, record_event)
        return await self._pull(key, pod, name, record_event)

    def forget(self, key: PodKey) -> None:
        """Drops the back-off state of a deleted pod."""
        self._failures = {
            pod_and_image: failure
            for pod_and_image, failure in self._failures.items()
            if pod_and_image[0] != key
        }

    async def _installed(self, key: PodKey, name: str, record_event: RecordPodEvent) -> Image | None:
        """The image of what is installed on the node, if a pod of ring0 names it. Raises ImageUnavailable."""
        if key.plane != HOME or key.tenant != SYSTEM or name not in (installation.NAME, etcd_image.NAME):
            return None
        add = self._store.add_installation if name == installation.NAME else self._store.add_etcd
        try:
            async with self._installing:
                return await asyncio.to_thread(add)
        except ToolMissing as error:
            self._check_backoff(key, name, record_event)
            raise self._failed(key, name, str(error), record_event) from error

    def _present(self, key: PodKey, name: str, policy: str) -> Image | None:
        try:
            if policy != "Always":
                return self._store.find(owner(key), name)
            return self._store.shared(name) if path_of(name) == name else None
        except ImageMissing:
            return None

    def _check_backoff(self, key: PodKey, name: str, record_event: RecordPodEvent) -> None:
        failure = self._failures.get((key, name))
        if failure is not None and self._clock() < failure.retry_at:
            record_event("Normal", "BackOff", f'Back-off pulling image "{name}"')
            message = f'Back-off pulling image "{name}": ErrImagePull: {failure.message}'
            raise ImageUnavailable("ImagePullBackOff", message, failure.retry_at - self._clock())

    async def _pull(self, key: PodKey, pod: Object, name: str, record_event: RecordPodEvent) -> Image:
        record_event("Normal", "Pulling", f'Pulling image "{name}"')
        requested_at = self._clock()
        semaphore = self._semaphores.get(key.tenant)
        if semaphore is None:
            semaphore = self._semaphores[key.tenant] = asyncio.Semaphore(PULLS_PER_TENANT_MAX)
        try:
            secrets = await self._secrets(key, pod, record_event)
            async with semaphore:
                began_at = self._clock()
                image = await self._pull_with_each(key, name, secrets)
        except (ImageFailure, ClientError, ApiError, OSError) as error:
            raise self._failed(key, name, _message(error), record_event) from error
        self._failures.pop((key, name), None)
        now = self._clock()
        record_event(
            "Normal",
            "Pulled",
            f'Successfully pulled image "{name}" in {_duration(now - began_at)} ({_duration(now - requested_at)} including '
            f"waiting). Image size: {image.size_bytes} bytes.",
        )
        return image

    async def _pull_with_each(self, key: PodKey, name: str, secrets: list[Object]) -> Image:
        failure: ImageFailure | None = None
        for each in credentials.for_image(full(name), secrets):
            try:
                return await self._store.pull(owner(key), name, each)
            except ImageFailure as error:
                failure = error
        assert failure is not None
        raise failure

    async def _secrets(self, key: PodKey, pod: Object, record_event: RecordPodEvent) -> list[Object]:
        """The pod's pull secrets. Admission has added those of its service account."""
        names = [each.get("name") or "" for each in (pod.get("spec") or {}).get("imagePullSecrets") or ()]
        secrets = {name: await self._lookup.secret(key, name) for name in names if name}
        if missing := [name for name, secret in secrets.items() if secret is None]:
            message = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            record_event(
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"{message}attempting to pull the image may not succeed.",
            )
        return [secret for secret in secrets.values() if secret is not None]

    def _failed(
        self, key: PodKey, name: str, message: str, record_event: RecordPodEvent
    ) -> "ImageUnavailable":
        previous, now = self._failures.get((key, name)), self._clock()
        wait = BACKOFF_SECONDS
        if previous is not None and now < previous.retry_at + 2 * BACKOFF_SECONDS_MAX:
            wait = min(2 * previous.wait_seconds, BACKOFF_SECONDS_MAX)
        while len(self._failures) >= FAILURES_MAX:
            self._failures.pop(next(iter(self._failures)))
        self._failures[key, name] = _PullFailure(wait, now + wait, message)
        record_event("Warning", "Failed", f'Failed to pull image "{name}": {message}')
        record_event("Warning", "Failed", "Error: ErrImagePull")
        return ImageUnavailable("ErrImagePull", message, wait)


def owner(key: PodKey) -> TenantId:
    """The tenant whose image names the pod uses. For another tenant than its own, a dedicated plane gets a
    separate set."""
    is_tenant_of_plane = key.plane in (HOME, key.tenant)
    return key.tenant if is_tenant_of_plane else TenantId(f"{key.plane}:{key.tenant}")


def _message(error: Exception) -> str:
    """The message for tenants, without paths of the node."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.3f}s"
