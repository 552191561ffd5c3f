"""Whether an image is fetched for a container, with whose credentials, and how often it is tried again.

Reasons and messages are those that users know from kubelet. A name without a registry's host that the
operator loaded (or that is built in) means that image, whatever the policy: nobody else could be asked for it.
"""

import asyncio
import os
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from msgspec import Struct

from alcove.agent.images import credentials
from alcove.agent.images.model import Image, ImageFailure, ImageMissing, ImageUnavailable
from alcove.agent.images.references import InvalidImageName, full, is_latest, path_of
from alcove.agent.images.store import ImageStore
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.client.keys import HOME

BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 10.0, 300.0
PULLS_PER_TENANT_MAX = 2
"""At a time: one tenant's slow registry holds up nobody else's pods."""
FAILURES_MAX = 4096

RecordPodEvent = Callable[[str, str, str], None]
"""An event of the pod: type, reason, message."""


def silent(_type: str, _reason: str, _message: str) -> None:
    pass


class _Failures(Struct, frozen=True):
    wait_seconds: float
    again_at: float
    message: str


class ImagePuller:
    def __init__(
        self, store: ImageStore, lookup: ObjectLookup, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._clock = clock
        self._failures: dict[tuple[PodKey, str], _Failures] = {}
        self._turns: WeakValueDictionary[TenantId, asyncio.Semaphore] = WeakValueDictionary()

    async def ensure(
        self, key: PodKey, pod: Object, container: Object, tell: RecordPodEvent = silent
    ) -> Image:
        """The container's image, on this node. NoImage says why not, with kubelet's reason; to be called
        again later. `pod` is the whole object; `container` needs `image` and `imagePullPolicy` only."""
        name = str(container.get("image") or "")
        try:
            by_default = "Always" if is_latest(name) else "IfNotPresent"
        except InvalidImageName as error:
            message = f'Failed to apply default image tag "{name}": {error}'
            tell("Warning", "InspectFailed", message)
            raise ImageUnavailable("InvalidImageName", message) from error
        policy = container.get("imagePullPolicy") or by_default
        found = self._present(key, name, policy)
        if found is not None:
            self._store.touch(found.digest)
            tell("Normal", "Pulled", f'Container image "{name}" already present on machine')
            return found
        if policy == "Never":
            message = f'Container image "{name}" is not present with pull policy of Never'
            tell("Warning", "ErrImageNeverPull", message)
            raise ImageUnavailable("ErrImageNeverPull", message)
        self._check_backoff(key, name, tell)
        return await self._pull(key, pod, name, tell)

    def forget(self, key: PodKey) -> None:
        """The pod is gone."""
        self._failures = {who: known for who, known in self._failures.items() if who[0] != key}

    def _present(self, key: PodKey, name: str, policy: str) -> Image | None:
        try:
            if policy != "Always":
                return self._store.find(owner(key), name)
            return self._store.shared(name) if path_of(name) == name else None
        except ImageMissing:
            return None

    def _check_backoff(self, key: PodKey, name: str, tell: RecordPodEvent) -> None:
        known = self._failures.get((key, name))
        if known is not None and self._clock() < known.again_at:
            tell("Normal", "BackOff", f'Back-off pulling image "{name}"')
            message = f'Back-off pulling image "{name}": ErrImagePull: {known.message}'
            raise ImageUnavailable("ImagePullBackOff", message, known.again_at - self._clock())

    async def _pull(self, key: PodKey, pod: Object, name: str, tell: RecordPodEvent) -> Image:
        tell("Normal", "Pulling", f'Pulling image "{name}"')
        asked_at = self._clock()
        turns = self._turns.get(key.tenant)
        if turns is None:
            turns = self._turns[key.tenant] = asyncio.Semaphore(PULLS_PER_TENANT_MAX)
        try:
            secrets = await self._secrets(key, pod, tell)
            async with turns:
                began_at = self._clock()
                image = await self._try_each(key, name, secrets)
        except (ImageFailure, ClientError, ApiError, OSError) as error:
            raise self._failed(key, name, _why(error), tell) from error
        self._failures.pop((key, name), None)
        now = self._clock()
        tell(
            "Normal",
            "Pulled",
            f'Successfully pulled image "{name}" in {_told(now - began_at)} ({_told(now - asked_at)} including '
            f"waiting). Image size: {image.size_bytes} bytes.",
        )
        return image

    async def _try_each(self, key: PodKey, name: str, secrets: list[Object]) -> Image:
        failure: ImageFailure | None = None
        for each in credentials.for_image(full(name), secrets):
            try:
                return await self._store.pull(owner(key), name, each)
            except ImageFailure as error:
                failure = error
        assert failure is not None
        raise failure

    async def _secrets(self, key: PodKey, pod: Object, tell: RecordPodEvent) -> list[Object]:
        """The pod's pull secrets; admission has put its service account's among them."""
        names = [each.get("name") or "" for each in (pod.get("spec") or {}).get("imagePullSecrets") or ()]
        found = {name: await self._lookup.secret(key, name) for name in names if name}
        if missing := [name for name, secret in found.items() if secret is None]:
            message = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            tell(
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"{message}attempting to pull the image may not succeed.",
            )
        return [secret for secret in found.values() if secret is not None]

    def _failed(self, key: PodKey, name: str, message: str, tell: RecordPodEvent) -> "ImageUnavailable":
        before, now = self._failures.get((key, name)), self._clock()
        wait = BACKOFF_SECONDS
        if before is not None and now < before.again_at + 2 * BACKOFF_SECONDS_MAX:
            wait = min(2 * before.wait_seconds, BACKOFF_SECONDS_MAX)
        while len(self._failures) >= FAILURES_MAX:
            self._failures.pop(next(iter(self._failures)))
        self._failures[key, name] = _Failures(wait, now + wait, message)
        tell("Warning", "Failed", f'Failed to pull image "{name}": {message}')
        tell("Warning", "Failed", "Error: ErrImagePull")
        return ImageUnavailable("ErrImagePull", message, wait)


def owner(key: PodKey) -> TenantId:
    """Whose names count. A dedicated plane speaks for its own tenant only, whatever it says."""
    is_own = key.plane in (HOME, key.tenant)
    return key.tenant if is_own else TenantId(f"{key.plane}:{key.tenant}")


def _why(error: Exception) -> str:
    """Tenants read this: where images are kept is the node's business."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error)


def _told(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.3f}s"
