"""The images of a node: each unpacked once, found by name, and only by tenants who may have it.

    <folder>/<digest>/image.json    what is known of it
    <folder>/<digest>/rootfs/       its files
    <folder>/names.json             whose name means which image (catalogue.py)
    <folder>/owners.json            which tenants these are (owners.py)

Having an image on the node is no leave to use it: a tenant's names are those it fetched with its own
credentials. What the operator loaded, and what is built in, is everybody's. Several processes may use one
folder at once: the agent, and the operator's commands.
"""

import asyncio
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent import file_trees
from alcove.agent.images import builtin, staging, tools
from alcove.agent.images.catalogue import Catalogue
from alcove.agent.images.model import Image, ImageMissing
from alcove.agent.images.references import full, repository, same
from alcove.agent.images.staging import StagingDirectory
from alcove.agent.images.tools import ImageSource, ImageTools, RegistryCredentials
from alcove.agent.runtime.config import ImageConfig
from alcove.api.ids import TenantId

EVERYBODY = TenantId("")
UNUSED_SECONDS_MIN = 120.0
"""Whoever was just given an image gets this long to use it."""


class _Record(Struct, frozen=True):
    digest: str
    config: ImageConfig
    size_bytes: int
    remote_digest: str = ""
    """What its registry calls it."""


class ImageStore:
    def __init__(self, folder: Path, fetcher: ImageTools | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._tools = fetcher or ImageTools()
        self._catalogue = Catalogue(folder)
        self._fetching: dict[str, asyncio.Lock] = {}
        """One for each image that is being fetched: two who want the same fetch it once, others do not wait."""
        staging.clean(folder)

    # Finding

    def find(self, tenant: TenantId, name: str) -> Image:
        """The tenant's own image of that name, else everybody's. ImageMissing: neither is here."""
        digest = self._catalogue.read().get(tenant, {}).get(full(name))
        return self.shared(name) if digest is None else self._image(digest)

    def shared(self, name: str) -> Image:
        """Everybody's image of that name. ImageMissing: there is none, or several that it could mean."""
        wanted, names = full(name), self._catalogue.read().get(EVERYBODY, {})
        exact = names.get(wanted)
        alike = {digest for known, digest in names.items() if same(wanted, known)}
        if exact is None and len(alike) != 1:
            raise ImageMissing(f'image "{name}" is not present')
        return self._image(exact or alike.pop())

    def all(self) -> list[Image]:
        return [self._image(record.digest) for record in self._records()]

    # Adding

    def add_builtin(self) -> Image:
        program = builtin.find()
        digest = builtin.digest(program)
        if not self._path(digest).exists():
            with StagingDirectory(self.folder) as made:
                (made / "rootfs").mkdir()
                builtin.build(program, made / "rootfs")
                [size_bytes] = file_trees.used_bytes([made / "rootfs"])
                file_trees.flush(made)
                self._keep(made, _Record(digest, builtin.CONFIG, size_bytes))
        self._name(EVERYBODY, (builtin.NAME,), digest)
        return self._image(digest)

    async def load(self, archive: Path) -> list[Image]:
        """The images of an archive, for everybody. PullFailed: it is none."""
        loaded = []
        for source in tools.sources_in(archive):
            digest = await self._load(source)
            self._name(EVERYBODY, [full(name) for name in source.names], digest)
            loaded.append(self._image(digest))
        return loaded

    async def pull(self, tenant: TenantId, name: str, credentials: RegistryCredentials) -> Image:
        """The image as its registry has it now, for this tenant. PullFailed: the registry does not give it."""
        wanted = full(name)
        remote = await self._tools.digest(wanted, credentials)
        lock = self._fetching.setdefault(remote, asyncio.Lock())
        try:
            async with lock:
                # Being shown its digest is leave to have it: the rest is only bytes that are here already.
                known = next((each.digest for each in self._records() if each.remote_digest == remote), None)
                digest = known or await self._fetch(wanted, remote, credentials)
                self._name(tenant, (wanted,), digest)
        finally:
            if not lock.locked():
                self._fetching.pop(remote, None)
        return self._image(digest)

    # Removing

    def forget_shared(self, name: str) -> Image:
        """Everybody's image of that exact name is nobody's, and goes with the next collection. ImageMissing."""
        with self._catalogue.changing() as names:
            digest = names.get(EVERYBODY, {}).pop(full(name), None)
        if digest is None:
            raise ImageMissing(f'image "{name}" is not present')
        return self._image(digest)

    def owners(self) -> set[TenantId]:
        """Those who have names for images here."""
        return set(self._catalogue.read())

    def forget_tenant(self, tenant: TenantId) -> None:
        """Its names are gone; images that nobody names go with the next collection."""
        with self._catalogue.changing() as names:
            names.pop(tenant, None)

    async def collect(
        self, in_use: Collection[str], bytes_max: int, seconds_min: float = UNUSED_SECONDS_MIN
    ) -> list[str]:
        """Removes images until the rest fits: unnamed ones first, then the longest unused. Not those whose
        digest is `in_use` or that were touched within `seconds_min`; nor everybody's, which nobody could
        fetch again. Their digests."""
        names = self._catalogue.read()
        pinned = {*in_use, *names.get(EVERYBODY, {}).values()}
        named = {digest for own in names.values() for digest in own.values()}
        records = sorted(self._records(), key=lambda each: (each.digest in named, self._used_at(each.digest)))
        total = sum(record.size_bytes for record in records)
        removed = []
        for record in records:
            is_wanted = record.digest in named and total <= bytes_max
            is_young = time.time() - self._used_at(record.digest) < seconds_min
            if is_wanted or is_young or record.digest in pinned:
                continue
            doomed = self._forget(record.digest)
            total -= record.size_bytes
            removed.append(record.digest)
            await asyncio.to_thread(file_trees.remove, doomed)
        return removed

    def touch(self, digest: str) -> None:
        """Somebody uses it now."""
        os.utime(self._path(digest) / "image.json")

    # Keeping

    async def _load(self, source: ImageSource) -> str:
        with StagingDirectory(self.folder) as made:
            await self._tools.copy(source, made / "layout")
            return await self._unpack(made, "")

    async def _fetch(self, name: str, remote: str, credentials: RegistryCredentials) -> str:
        with StagingDirectory(self.folder) as made:
            # By digest: the name may mean another image a moment later.
            await self._tools.fetch(f"{repository(name)}@{remote}", made / "layout", credentials)
            return await self._unpack(made, remote)

    async def _unpack(self, made: Path, remote: str) -> str:
        layout = made / "layout"
        digest, config = tools.config_of(layout)
        if not self._path(digest).exists():
            await self._tools.unpack(layout, made / "rootfs")
            await asyncio.to_thread(file_trees.remove, layout)
            [size_bytes] = await asyncio.to_thread(file_trees.used_bytes, [made / "rootfs"])
            await asyncio.to_thread(file_trees.flush, made)
            self._keep(made, _Record(digest, config, size_bytes, remote))
        return digest

    def _keep(self, made: Path, record: _Record) -> None:
        with (made / "image.json").open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        try:
            made.rename(self._path(record.digest))
        except OSError:
            if not self._path(record.digest).exists():  # Else another brought it meanwhile.
                raise

    def _path(self, digest: str) -> Path:
        return self.folder / digest.replace(":", "-")

    def _records(self) -> list[_Record]:
        return [self._record(path) for path in sorted(self.folder.glob("sha256-*/image.json"))]

    def _record(self, path: Path) -> _Record:
        return msgspec.json.decode(path.read_bytes(), type=_Record)

    def _image(self, digest: str) -> Image:
        path = self._path(digest)
        try:
            record = self._record(path / "image.json")
        except FileNotFoundError:
            raise ImageMissing(f"image {digest} is not present") from None
        names = self._catalogue.read()
        told = {name for own in names.values() for name, known in own.items() if known == digest}
        size, remote = record.size_bytes, record.remote_digest
        return Image(digest, tuple(sorted(told)), record.config, path / "rootfs", size, remote)

    def _used_at(self, digest: str) -> float:
        return (self._path(digest) / "image.json").stat().st_mtime

    def _forget(self, digest: str) -> Path:
        """No image any more; what is left of it is to be removed."""
        with self._catalogue.changing() as names:
            for own in names.values():
                for name in [name for name, known in own.items() if known == digest]:
                    del own[name]
        return staging.discarded(self.folder, self._path(digest))

    def _name(self, tenant: TenantId, names: Collection[str], digest: str) -> None:
        with self._catalogue.changing() as all_names:
            all_names.setdefault(tenant, {}).update(dict.fromkeys(names, digest))
        self.touch(digest)


def node_status_images(images: Collection[Image], count_max: int = 50) -> list[Mapping[str, object]]:
    """A node's `status.images`: the largest, each by all its names."""
    largest = sorted(images, key=lambda image: image.size_bytes, reverse=True)[:count_max]
    return [
        {
            "names": sorted({*image.names, *(image.id_as(name) for name in image.names)}),
            "sizeBytes": image.size_bytes,
        }
        for image in largest
        if image.names
    ]
