"""The image store of a node: each image is unpacked once, and found by name by the tenants that may use it.

    <directory>/<digest>/image.json    digest, configuration and size
    <directory>/<digest>/rootfs/       the files
    <directory>/incoming-…/            an image that is being unpacked or removed
    <directory>/names.json             the image names of each tenant (Catalogue)
    <directory>/owners.json            the uids of these tenants (owners.py)

A tenant may only use the images that it pulled with its own credentials, even if others are on the node.
Images that the operator loaded, and the built-in one, are for all tenants. Several processes may use one
store concurrently: the agent and the operator's commands.
"""

import asyncio
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent import file_trees
from alcove.agent.file_trees import TreeUsage
from alcove.agent.images import builtin, disk_share, etcd_image, installation, layouts, node_files
from alcove.agent.images.layouts import ImageSource
from alcove.agent.images.model import Image, ImageMissing, TooMuchForTenant
from alcove.agent.images.references import full, repository, same
from alcove.agent.images.tools import ImageTools, RegistryCredentials, check_room
from alcove.agent.runtime.config import ImageConfig
from alcove.api.ids import SYSTEM, TenantId

ALL_TENANTS = TenantId("")
UNUSED_SECONDS_MIN = 120.0
"""An image that was just returned to a caller is not collected for this long."""
_STAGING_PREFIX = "incoming-"
Names = dict[TenantId, dict[str, str]]
"""By tenant: image names and the digests they refer to."""


class Catalogue:
    """The mapping of tenants' image names to digests: one file, written by one process at a time, read by
    any.

    An operator's command may change it while the agent is running: every read returns the last written state.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "names.json"
        self._lock = directory / "names.lock"
        self._read_state: tuple[int, int] = (0, 0)
        self._names: Names = {}

    def read(self) -> Mapping[TenantId, Mapping[str, str]]:
        try:
            with self._path.open("rb") as file:
                state = os.fstat(file.fileno())
                # Every write creates a new file, so an unchanged inode and time mean unchanged content.
                if (state.st_ino, state.st_mtime_ns) != self._read_state:
                    self._names = msgspec.json.decode(file.read(), type=Names)
                    self._read_state = (state.st_ino, state.st_mtime_ns)
        except FileNotFoundError:
            self._names, self._read_state = {}, (0, 0)
        return self._names

    @contextmanager
    def edit(self) -> Iterator[Names]:
        """Yields a copy of all names; what the block has made of it is written when the block ends."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            names = {tenant: dict(digests) for tenant, digests in before.items()}
            yield names
            after = {tenant: digests for tenant, digests in names.items() if digests}
            if after != before:
                self._write(after)

    def _write(self, names: Names) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(names))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)


class StagingDirectory:
    """The directory of an image that is being unpacked: it becomes an image by a rename, or is deleted.

    It is locked while a process uses it, so that the cleanup after a crash skips the directories that another
    process is using.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / f"{_STAGING_PREFIX}{uuid.uuid4().hex}"
        self._lock = -1

    def __enter__(self) -> Path:
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self.path

    def __exit__(self, *_: object) -> None:
        file_trees.remove(self.path)
        os.close(self._lock)


def _discard(directory: Path, doomed: Path) -> Path:
    """Renames the image directory `doomed`, so that it is no image any more, and returns the new path. The
    caller or the next start deletes it."""
    path = directory / f"{_STAGING_PREFIX}{uuid.uuid4().hex}"
    doomed.rename(path)
    return path


def _clean(directory: Path) -> None:
    """Deletes all staging directories that are not in use."""
    for path in directory.glob(f"{_STAGING_PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file_trees.remove(path)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


class _Record(Struct, frozen=True):
    digest: str
    config: ImageConfig
    size_bytes: int
    remote_digest: str = ""
    """The digest in its registry."""
    files: int = 0
    """Inodes; 0 in records of earlier versions."""

    @property
    def usage(self) -> TreeUsage:
        return TreeUsage(self.size_bytes, self.files)


class ImageStore:
    def __init__(self, directory: Path, fetcher: ImageTools | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self._tools = fetcher or ImageTools()
        self._catalogue = Catalogue(directory)
        self._fetching: dict[str, asyncio.Lock] = {}
        """One lock per image that is being pulled: concurrent pulls of the same image fetch it once."""
        self._crowded: set[TenantId] = set()
        """Tenants that had no room for another image: the next collection removes those that they do not use."""
        self._installation: tuple[list[Path], str] | None = None
        """The files of this node's installation, and their digest."""
        _clean(directory)

    # Finding

    def find(self, tenant: TenantId, name: str) -> Image:
        """The tenant's image of that name, otherwise the one for all tenants. Raises ImageMissing."""
        digest = self._catalogue.read().get(tenant, {}).get(full(name))
        return self.shared(name) if digest is None else self._image(digest)

    def shared(self, name: str) -> Image:
        """The image for all tenants of that name. Raises ImageMissing if there is none, or if the name is
        ambiguous."""
        reference, names = full(name), self._catalogue.read().get(ALL_TENANTS, {})
        exact = names.get(reference)
        alike = {digest for known, digest in names.items() if same(reference, known)}
        if exact is None and len(alike) != 1:
            raise ImageMissing(f'image "{name}" is not present')
        return self._image(exact or alike.pop())

    def all(self) -> list[Image]:
        return [self._image(record.digest) for record in self._records()]

    # Adding

    def add_builtin(self) -> Image:
        program = builtin.find()
        digest = builtin.digest(program)
        self._build(digest, builtin.CONFIG, partial(builtin.build, program))
        self._name(ALL_TENANTS, (builtin.NAME,), digest)
        return self._image(digest)

    def add_installation(self) -> Image:
        """The image of this node's own installation, for ring0. An installation that has changed is noticed at the
        next start of this process."""
        if self._installation is None:
            files = installation.files()
            self._installation = files, node_files.digest(files)
        files, digest = self._installation
        self._build(digest, installation.CONFIG, partial(installation.build, files))
        self._name(SYSTEM, (full(installation.NAME),), digest)
        return self._image(digest)

    def add_etcd(self) -> Image:
        """The image of this node's etcd, for ring0. Raises ToolMissing."""
        program = etcd_image.find()
        digest = node_files.digest((program,))
        self._build(digest, etcd_image.CONFIG, partial(etcd_image.build, program))
        self._name(SYSTEM, (full(etcd_image.NAME),), digest)
        return self._image(digest)

    def _build(self, digest: str, config: ImageConfig, build: Callable[[Path], None]) -> None:
        if self._path(digest).exists():
            return
        with StagingDirectory(self.directory) as staged:
            (staged / "rootfs").mkdir()
            build(staged / "rootfs")
            [size_bytes] = file_trees.used_bytes([staged / "rootfs"])
            file_trees.flush(staged)
            self._commit(staged, _Record(digest, config, size_bytes))

    async def load(self, archive: Path) -> list[Image]:
        """Loads the images of an archive for all tenants. Raises PullFailed if it is not an image archive."""
        loaded = []
        for source in layouts.sources_in(archive):
            digest = await self._load(source)
            self._name(ALL_TENANTS, [full(name) for name in source.names], digest)
            loaded.append(self._image(digest))
        return loaded

    async def pull(self, tenant: TenantId, name: str, credentials: RegistryCredentials) -> Image:
        """Pulls the image's current version from its registry for this tenant. Raises PullFailed."""
        reference = full(name)
        remote = await self._tools.digest(tenant, reference, credentials)
        lock = self._fetching.setdefault(remote, asyncio.Lock())
        try:
            async with lock:
                # The registry returned the digest for these credentials, so the tenant may use a local copy.
                existing = next(
                    (each.digest for each in self._records() if each.remote_digest == remote), None
                )
                digest = existing or await self._fetch(tenant, reference, remote, credentials)
                self._name(tenant, (reference,), digest)
                self._crowded.discard(tenant)
        except TooMuchForTenant:
            self._crowded.add(tenant)
            raise
        finally:
            if not lock.locked():
                self._fetching.pop(remote, None)
        return self._image(digest)

    # Removing

    def forget_shared(self, name: str) -> Image:
        """Removes exactly this name from the images for all tenants; the next collection deletes the image.
        Raises ImageMissing."""
        with self._catalogue.edit() as names:
            digest = names.get(ALL_TENANTS, {}).pop(full(name), None)
        if digest is None:
            raise ImageMissing(f'image "{name}" is not present')
        return self._image(digest)

    def owners(self) -> set[TenantId]:
        """The tenants that have image names."""
        return set(self._catalogue.read())

    def forget_tenant(self, tenant: TenantId) -> None:
        """Removes the tenant's names; the next collection deletes images that have no names left."""
        with self._catalogue.edit() as names:
            names.pop(tenant, None)

    async def collect(
        self, in_use: Collection[str], bytes_max: int, seconds_min: float = UNUSED_SECONDS_MIN
    ) -> list[str]:
        """Removes images until the rest fits: unnamed ones first, then the least recently used. Keeps those
        whose digest is `in_use`, those touched within `seconds_min` and those for all tenants, which no
        registry could provide again. Tenants that had no room for another image lose all others of theirs. Returns the
        removed digests."""
        names = self._catalogue.read()
        crowded, self._crowded = self._crowded, set()
        spacious = {digest for tenant in names.keys() - crowded for digest in names[tenant].values()}
        pinned = {*in_use, *names.get(ALL_TENANTS, {}).values()}
        named = {digest for digests in names.values() for digest in digests.values()}
        records = sorted(self._records(), key=lambda each: (each.digest in named, self._used_at(each.digest)))
        total = sum(record.size_bytes for record in records)
        removed = []
        for record in records:
            is_kept = record.digest in (spacious if crowded else named) and total <= bytes_max
            is_young = time.time() - self._used_at(record.digest) < seconds_min
            if is_kept or is_young or record.digest in pinned:
                continue
            doomed = self._forget(record.digest)
            total -= record.size_bytes
            removed.append(record.digest)
            await asyncio.to_thread(file_trees.remove, doomed)
        return removed

    def touch(self, digest: str) -> None:
        """Marks the image as used now."""
        os.utime(self._path(digest) / "image.json")

    # Keeping

    async def _load(self, source: ImageSource) -> str:
        with StagingDirectory(self.directory) as staged:
            await self._tools.copy(source, staged / "layout")
            return await self._unpack(staged, "")

    async def _fetch(self, tenant: TenantId, name: str, remote: str, credentials: RegistryCredentials) -> str:
        room = disk_share.room(self.directory, self.usage(tenant)) if tenant != SYSTEM else None
        with StagingDirectory(self.directory) as staged:
            # By digest: the tag may refer to another image a moment later.
            pinned = f"{repository(name)}@{remote}"
            await self._tools.fetch(tenant, pinned, staged / "layout", credentials, room)
            return await self._unpack(staged, remote, room)

    async def _unpack(self, staged: Path, remote: str, room: TreeUsage | None = None) -> str:
        layout = staged / "layout"
        digest, config = layouts.config_of(layout)
        if not self._path(digest).exists():
            await self._tools.unpack(layout, staged / "rootfs", room)
            await asyncio.to_thread(file_trees.remove, layout)
            used = await check_room(staged / "rootfs", room)
            await asyncio.to_thread(file_trees.flush, staged)
            self._commit(staged, _Record(digest, config, used.bytes, remote, used.files))
        return digest

    def usage(self, tenant: TenantId) -> TreeUsage:
        """What the images take that the tenant has pulled."""
        own = set(self._catalogue.read().get(tenant, {}).values())
        records = [each.usage for each in self._records() if each.digest in own]
        return TreeUsage(sum(each.bytes for each in records), sum(each.files for each in records))

    def _commit(self, staged: Path, record: _Record) -> None:
        with (staged / "image.json").open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        try:
            staged.rename(self._path(record.digest))
        except OSError:
            if not self._path(record.digest).exists():  # Otherwise another process has added it meanwhile.
                raise

    def _path(self, digest: str) -> Path:
        return self.directory / digest.replace(":", "-")

    def _records(self) -> list[_Record]:
        return [self._record(path) for path in sorted(self.directory.glob("sha256-*/image.json"))]

    def _record(self, path: Path) -> _Record:
        return msgspec.json.decode(path.read_bytes(), type=_Record)

    def _image(self, digest: str) -> Image:
        path = self._path(digest)
        try:
            record = self._record(path / "image.json")
        except FileNotFoundError:
            raise ImageMissing(f"image {digest} is not present") from None
        names = self._catalogue.read()
        image_names = {
            name for digests in names.values() for name, known in digests.items() if known == digest
        }
        size, remote = record.size_bytes, record.remote_digest
        return Image(digest, tuple(sorted(image_names)), record.config, path / "rootfs", size, remote)

    def _used_at(self, digest: str) -> float:
        return (self._path(digest) / "image.json").stat().st_mtime

    def _forget(self, digest: str) -> Path:
        """Removes all names of the image and returns the renamed directory, which the caller deletes."""
        with self._catalogue.edit() as names:
            for digests in names.values():
                for name in [name for name, known in digests.items() if known == digest]:
                    del digests[name]
        return _discard(self.directory, self._path(digest))

    def _name(self, tenant: TenantId, names: Collection[str], digest: str) -> None:
        with self._catalogue.edit() as all_names:
            all_names.setdefault(tenant, {}).update(dict.fromkeys(names, digest))
        self.touch(digest)


def node_status_images(images: Collection[Image], count_max: int = 50) -> list[Mapping[str, object]]:
    """A node's `status.images`: the `count_max` largest images, each with all its names."""
    largest = sorted(images, key=lambda image: image.size_bytes, reverse=True)[:count_max]
    return [
        {
            "names": sorted({*image.names, *(image.id_as(name) for name in image.names)}),
            "sizeBytes": image.size_bytes,
        }
        for image in largest
        if image.names
    ]
