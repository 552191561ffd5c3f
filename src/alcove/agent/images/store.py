"""The images of a node: each unpacked once, found by name, and only by tenants who may have it.

    <folder>/<digest>/image.json    what is known of it
    <folder>/<digest>/rootfs/       its files
    <folder>/names.json             whose name means which image

Having an image on the node is no leave to use it: a tenant's names are those it fetched with its own
credentials. What the operator loaded, and what is built in, is everybody's.
"""

import asyncio
import os
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent.images import builtin, tools
from alcove.agent.images.model import Image, ImageMissing
from alcove.agent.images.names import full, same
from alcove.agent.images.tools import Credentials, Source, Tools
from alcove.agent.runtime.config import ImageConfig
from alcove.api.ids import TenantId

EVERYBODY = TenantId("")


class _Record(Struct, frozen=True):
    digest: str
    config: ImageConfig
    size_bytes: int
    remote_digest: str = ""
    """What its registry calls it."""


class ImageStore:
    def __init__(self, folder: Path, fetcher: Tools | None = None) -> None:
        self._folder = folder
        self._tools = fetcher or Tools()
        self._fetching: dict[str, asyncio.Lock] = {}
        """One for each image that is being fetched: two who want the same fetch it once, others do not wait."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for unfinished in folder.glob("incoming-*"):
            shutil.rmtree(unfinished)

    # Finding

    def find(self, tenant: TenantId, name: str) -> Image:
        """The tenant's own image of that name, else everybody's. ImageMissing: neither is here."""
        names = self._names()
        wanted = full(name)
        own = names.get(tenant, {})
        if wanted in own:
            return self._image(own[wanted])
        shared = {digest for known, digest in names.get(EVERYBODY, {}).items() if same(wanted, known)}
        exact = names.get(EVERYBODY, {}).get(wanted)
        if exact is None and len(shared) != 1:
            raise ImageMissing(f'image "{name}" is not present')
        return self._image(exact or shared.pop())

    def all(self) -> list[Image]:
        return [self._image(record.digest) for record in self._records()]

    # Adding

    def add_builtin(self) -> Image:
        program = builtin.find()
        digest = builtin.digest(program)
        if not self._path(digest).exists():
            with _Incoming(self._folder) as incoming:
                (incoming / "rootfs").mkdir()
                builtin.build(program, incoming / "rootfs")
                self._keep(incoming, digest, builtin.CONFIG, "")
        self._name(EVERYBODY, builtin.NAME, digest)
        return self._image(digest)

    async def load(self, archive: Path) -> list[Image]:
        """The images of an archive, for everybody."""
        loaded = []
        for source in tools.sources_in(archive):
            digest = await self._load(source)
            for name in source.names:
                self._name(EVERYBODY, full(name), digest)
            loaded.append(self._image(digest))
        return loaded

    async def pull(self, tenant: TenantId, name: str, credentials: Credentials) -> Image:
        """The image as its registry has it now, for this tenant. PullFailed: the registry does not give it."""
        wanted = full(name)
        remote = await self._tools.digest(wanted, credentials)
        lock = self._fetching.setdefault(remote, asyncio.Lock())
        async with lock:
            # Being shown its digest is leave to have it: the rest is only bytes that are here already.
            known = next((each.digest for each in self._records() if each.remote_digest == remote), None)
            digest = known or await self._fetch(wanted, remote, credentials)
            self._name(tenant, wanted, digest)
        if not lock.locked():
            self._fetching.pop(remote, None)
        return self._image(digest)

    # Removing

    def forget_tenant(self, tenant: TenantId) -> None:
        """Its names are gone; images that nobody names go with the next collection."""
        names = self._names()
        if names.pop(tenant, None) is not None:
            self._write_names(names)

    def collect(self, in_use: Collection[str], bytes_max: int) -> list[str]:
        """Removes images that no container uses until the rest fits: unnamed ones first, then the longest unused."""
        named = {digest for own in self._names().values() for digest in own.values()}
        records = sorted(self._records(), key=lambda each: (each.digest in named, self._used_at(each.digest)))
        total = sum(record.size_bytes for record in records)
        removed = []
        for record in records:
            is_wanted = record.digest in named and total <= bytes_max
            if is_wanted or record.digest in in_use:
                continue
            self._remove(record.digest)
            total -= record.size_bytes
            removed.append(record.digest)
        return removed

    def touch(self, digest: str) -> None:
        """A container uses it now."""
        os.utime(self._path(digest) / "image.json")

    # Keeping

    async def _load(self, source: Source) -> str:
        with _Incoming(self._folder) as incoming:
            await self._tools.copy(source, incoming / "layout")
            return await self._unpack(incoming, "")

    async def _fetch(self, name: str, remote: str, credentials: Credentials) -> str:
        repository = name.partition("@")[0]
        if ":" in repository.rpartition("/")[2]:
            repository = repository.rpartition(":")[0]
        with _Incoming(self._folder) as incoming:
            # By digest: the name may mean another image a moment later.
            await self._tools.fetch(f"{repository}@{remote}", incoming / "layout", credentials)
            return await self._unpack(incoming, remote)

    async def _unpack(self, incoming: Path, remote: str) -> str:
        layout = incoming / "layout"
        digest, config = tools.config_of(layout)
        if not self._path(digest).exists():
            await self._tools.unpack(layout, incoming / "rootfs")
            shutil.rmtree(layout)
        if not self._path(digest).exists():  # Another name of it may have been fetched meanwhile.
            self._keep(incoming, digest, config, remote)
        return digest

    def _keep(self, incoming: Path, digest: str, config: ImageConfig, remote: str) -> None:
        record = _Record(digest, config, _size(incoming / "rootfs"), remote)
        (incoming / "image.json").write_bytes(msgspec.json.encode(record))
        incoming.rename(self._path(digest))

    def _path(self, digest: str) -> Path:
        return self._folder / digest.replace(":", "-")

    def _records(self) -> list[_Record]:
        paths = sorted(self._folder.glob("sha256-*/image.json"))
        return [msgspec.json.decode(path.read_bytes(), type=_Record) for path in paths]

    def _image(self, digest: str) -> Image:
        path = self._path(digest)
        try:
            record = msgspec.json.decode((path / "image.json").read_bytes(), type=_Record)
        except FileNotFoundError:
            raise ImageMissing(f"image {digest} is not present") from None
        told = {name for own in self._names().values() for name, known in own.items() if known == digest}
        return Image(digest, tuple(sorted(told)), record.config, path / "rootfs", record.size_bytes)

    def _used_at(self, digest: str) -> float:
        return (self._path(digest) / "image.json").stat().st_mtime

    def _remove(self, digest: str) -> None:
        doomed = self._folder / f"incoming-{uuid.uuid4().hex}"
        self._path(digest).rename(doomed)
        shutil.rmtree(doomed)
        names = self._names()
        kept = {
            who: {name: known for name, known in own.items() if known != digest} for who, own in names.items()
        }
        self._write_names({who: own for who, own in kept.items() if own})

    def _names(self) -> dict[TenantId, dict[str, str]]:
        try:
            content = (self._folder / "names.json").read_bytes()
        except FileNotFoundError:
            return {}
        return msgspec.json.decode(content, type=dict[TenantId, dict[str, str]])

    def _name(self, tenant: TenantId, name: str, digest: str) -> None:
        names = self._names()
        names.setdefault(tenant, {})[name] = digest
        self._write_names(names)

    def _write_names(self, names: dict[TenantId, dict[str, str]]) -> None:
        draft = self._folder / "names.json.new"
        draft.write_bytes(msgspec.json.encode(names))
        draft.rename(self._folder / "names.json")


class _Incoming:
    """A folder for what is being made: it becomes an image by its new name, or is gone."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"incoming-{uuid.uuid4().hex}"

    def __enter__(self) -> Path:
        self._path.mkdir(mode=0o700)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _size(rootfs: Path) -> int:
    total = 0
    for folder, _, files in os.walk(rootfs):
        total += sum(Path(folder, name).lstat().st_blocks * 512 for name in files)
    return total
