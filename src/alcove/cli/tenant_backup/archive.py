"""The format of a tenant's backup: one line per object, with a checksum at the end.

    H {"format":"alcove-tenant-backup","version":1,"tenant":"acme","revision":"812","time":"…"}
    R {"group":"apps","version":"v1","resource":"deployments","kind":"Deployment","namespaced":true}
    O {"metadata":{…},"spec":{…}}
    …
    V {"namespace":"default","name":"data"}
    D 262144
    … so many bytes, and a line break
    E {"objects":1234,"sha256":"…"}

`R` names the resource of the objects after it; `V` the claim of the volume whose files, as a tar archive, the `D` after it are. Volumes come after
all objects: reading them takes longer than the API server keeps the objects' revision. Archives with volumes are of version 2. `E` is the last line, its checksum is that of all bytes before it. A checksum
finds damage, not forgery: what an archive contains is not trusted more than what its restorer sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, TypeVar

import msgspec
import orjson
from msgspec import Struct

from alcove.api import names
from alcove.api.objects import Object
from alcove.cli.errors import CliError
from alcove.cli.tenant_backup.claims import Claim
from alcove.client.resources import Resource

Decoded = TypeVar("Decoded")

FORMAT, VERSION, VERSION_WITH_VOLUMES = "alcove-tenant-backup", 1, 2
CHUNK_BYTES_MAX = 1 << 20
"""Of the files of a volume."""
LINE_BYTES_MAX = 8 << 20
"""Longer than any object that the API server stores (3 MiB)."""


class ArchiveHeader(Struct, frozen=True):
    tenant: str
    revision: str
    time: str
    format: str = FORMAT
    version: int = VERSION


class ArchiveEnd(Struct, frozen=True):
    objects: int
    sha256: str


class VolumeChunk(Struct, frozen=True):
    """A part of the files of a volume; empty for one that begins."""

    claim: Claim
    data: bytes


class ArchivedObject(Struct, frozen=True):
    resource: Resource
    obj: Object
    number: int
    """The object's position in the archive, from 1."""

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def __str__(self) -> str:
        within = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource} {within}{self.name}"


class ArchiveWriter:
    def __init__(self, out: BinaryIO, header: ArchiveHeader, size_max: int = 0) -> None:
        """Writing more than `size_max` bytes, if that is not 0, raises CliError."""
        self._out = out
        self._size_max = size_max
        self._digest = hashlib.sha256()
        self._resource: Resource | None = None
        self.objects = 0
        self.size_bytes = 0
        self._write(b"H", msgspec.json.encode(header))

    def add(self, resource: Resource, encoded: list[bytes]) -> None:
        """Writes objects of a resource, as the API server encoded them."""
        if encoded and resource != self._resource:
            self._write(b"R", msgspec.json.encode(resource))
            self._resource = resource
        # Encoded JSON has no line breaks, unless a server formats it.
        lines = [each if b"\n" not in each else orjson.dumps(orjson.loads(each)) for each in encoded]
        self._append(b"".join([b"O %b\n" % line for line in lines]))
        self.objects += len(lines)

    def begin_volume(self, claim: Claim) -> None:
        """All objects must have been added."""
        self._write(b"V", msgspec.json.encode(claim))

    def add_chunk(self, data: bytes) -> None:
        """Writes a part of the volume's files, of at most CHUNK_BYTES_MAX."""
        self._append(b"D %d\n%b\n" % (len(data), data))

    def end(self) -> None:
        end = ArchiveEnd(self.objects, self._digest.hexdigest())
        self._write(b"E", msgspec.json.encode(end))

    def _write(self, tag: bytes, body: bytes) -> None:
        self._append(b"%b %b\n" % (tag, body))

    def _append(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._out.write(chunk)
        self.size_bytes += len(chunk)
        if self._size_max and self.size_bytes > self._size_max:
            raise CliError(f"the backup is larger than {self._size_max} bytes")


class ArchiveReader:
    """Reads an archive from its beginning. Everything raises CliError if it is not what `ArchiveWriter` writes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = _lines(stream)
        tag, body, _ = next(self._lines, (b"", b"", b""))
        if tag != b"H":
            raise CliError("this is not a backup of a tenant (or it is encrypted: see --passphrase-file)")
        self._digest = hashlib.sha256(b"H %b\n" % body)
        self.header = _decode(body, ArchiveHeader)
        if self.header.format != FORMAT or names.dns_label(self.header.tenant):
            raise CliError("this is not a backup of a tenant")
        if self.header.version not in (VERSION, VERSION_WITH_VOLUMES):
            known = f"{VERSION} and {VERSION_WITH_VOLUMES}"
            raise CliError(f"the backup has format {self.header.version}, but this version reads {known}")

    def objects(self) -> Iterator[ArchivedObject]:
        """All objects, each checked. It has been verified when the iterator ends, not before."""
        return (each for each in self.entries() if isinstance(each, ArchivedObject))

    def entries(self) -> Iterator[ArchivedObject | VolumeChunk]:
        """All objects, and then all files in volumes."""
        resource, claim, count = None, None, 0
        for tag, body, line in self._lines:
            match tag:
                case b"V" if self.header.version == VERSION_WITH_VOLUMES:
                    claim = _decode(body, Claim)
                    yield VolumeChunk(claim, b"")
                case b"D" if claim is not None:
                    yield VolumeChunk(claim, body)
                case b"R":
                    resource = _decode(body, Resource)
                case b"O" if resource is not None and claim is None:
                    count += 1
                    yield self._object(resource, body, count)
                case b"E":
                    self._check_end(_decode(body, ArchiveEnd), count)
                    return
                case _:
                    raise CliError("the backup is damaged: a line is not what it should be")
            self._digest.update(line)
        raise CliError("the backup is incomplete: its end is missing")

    def _object(self, resource: Resource, body: bytes, number: int) -> ArchivedObject:
        try:
            obj = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise CliError(f"the backup is damaged: object {number} is not JSON") from error
        if not isinstance(obj, dict) or not isinstance(metadata := obj.get("metadata"), dict):
            raise CliError(f"the backup is damaged: object {number} has no metadata")
        name, namespace = metadata.get("name"), metadata.get("namespace", "")
        if not isinstance(name, str) or not name or names.path_segment(name):
            raise CliError(f"the backup is damaged: object {number} has no valid name")
        has_namespace = isinstance(namespace, str) and not names.dns_label(namespace)
        if has_namespace != resource.namespaced or (namespace and not has_namespace):
            raise CliError(f"the backup is damaged: object {number} is not in a valid namespace")
        if metadata.get("tenant") != self.header.tenant:
            raise CliError(f"object {number} of the backup is of another tenant than {self.header.tenant}")
        return ArchivedObject(resource, obj, number)

    def _check_end(self, end: ArchiveEnd, count: int) -> None:
        if end.sha256 != self._digest.hexdigest() or end.objects != count:
            raise CliError("the backup is damaged: its checksum is wrong")
        if next(self._lines, None) is not None:
            raise CliError("the backup is damaged: something follows its end")


def _lines(stream: BinaryIO) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Each line as its tag, its body, and all of it."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise CliError("the backup is damaged: a line is too long")
        if not line.endswith(b"\n") or line[1:2] != b" ":
            raise CliError("the backup is incomplete or damaged: its last line is cut off")
        if line[:1] == b"D":
            data = _data(stream, line)
            yield b"D", data, b"%b%b\n" % (line, data)
        else:
            yield line[:1], line[2:-1], line


def _data(stream: BinaryIO, line: bytes) -> bytes:
    """The bytes after a line that says how many they are."""
    count = line[2:-1]
    if not count.isdigit() or len(count) > 8 or int(count) > CHUNK_BYTES_MAX:
        raise CliError("the backup is damaged: a part of a volume is too long")
    data = stream.read(int(count) + 1)
    if len(data) != int(count) + 1 or not data.endswith(b"\n"):
        raise CliError("the backup is incomplete or damaged: a part of a volume is cut off")
    return data[:-1]


def _decode(body: bytes, type_: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CliError(f"the backup is damaged: {error}") from error
