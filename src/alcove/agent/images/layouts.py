"""Reads what images say of themselves: in OCI layouts, which skopeo writes, and in archives.

The author of an image chooses all of it: files are read up to a limit, only known fields are decoded, and a digest
becomes a path only if it has the form of one.
"""

import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from msgspec import Struct, field

from alcove.agent import untrusted_files
from alcove.agent.images.model import PullFailed
from alcove.agent.runtime.config import ImageConfig
from alcove.api.objects import Object

T = TypeVar("T")

DESCRIPTION_BYTES_MAX = 4 << 20
"""Size of one index, manifest or configuration, as in skopeo; an image with a larger one is not pulled."""
LAYERS_MAX = 1_000
"""Layers of one image; an image with more is not pulled."""
CONFIG_BYTES_MAX = 128 << 10
"""Size of entry point, command, environment and the other settings of one image that are kept for its
containers; an image with more is not pulled."""
_is_digest = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}").fullmatch


class ImageSource(Struct, frozen=True):
    """An image in an archive: its location for skopeo, and its names there."""

    location: str
    names: tuple[str, ...] = ()


class _Descriptor(Struct, frozen=True):
    digest: str


class _Index(Struct, frozen=True):
    manifests: tuple[_Descriptor, ...]


class _Manifest(Struct, frozen=True):
    config: _Descriptor
    layers: tuple[_Descriptor, ...] = ()


class _Settings(Struct, frozen=True):
    entrypoint: tuple[str, ...] | None = field(default=None, name="Entrypoint")
    command: tuple[str, ...] | None = field(default=None, name="Cmd")
    env: tuple[str, ...] | None = field(default=None, name="Env")
    working_dir: str | None = field(default=None, name="WorkingDir")
    user: str | None = field(default=None, name="User")
    stop_signal: str | None = field(default=None, name="StopSignal")


class _Configuration(Struct, frozen=True):
    config: _Settings | None = None


def config_of(layout: Path) -> tuple[str, ImageConfig]:
    """The digest of the image's manifest, and its configuration. Raises PullFailed."""
    index = _read(layout, "index.json", _Index)
    if not index.manifests:
        raise PullFailed("the image has no manifest")
    digest = index.manifests[0].digest
    manifest = _read(layout, _blob(digest), _Manifest)
    if len(manifest.layers) > LAYERS_MAX:
        raise PullFailed(f"the image has more than {LAYERS_MAX} layers")
    settings = _read(layout, _blob(manifest.config.digest), _Configuration).config or _Settings()
    config = ImageConfig(
        entrypoint=settings.entrypoint or (),
        command=settings.command or (),
        env=settings.env or (),
        working_dir=settings.working_dir or "",
        user=settings.user or "",
        stop_signal=settings.stop_signal or "",
    )
    if len(msgspec.json.encode(config)) > CONFIG_BYTES_MAX:
        raise PullFailed(
            f"the image's entry point, command and environment have more than {CONFIG_BYTES_MAX} bytes"
        )
    return digest, config


def _read(layout: Path, name: str, type_: type[T]) -> T:
    content = untrusted_files.read_head(layout, name, DESCRIPTION_BYTES_MAX + 1)
    if content is None:
        raise PullFailed("the image is incomplete")
    if len(content) > DESCRIPTION_BYTES_MAX:
        raise PullFailed(f"the image's manifest or configuration has more than {DESCRIPTION_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(content, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PullFailed("the image's manifest or configuration is not valid") from error


def _blob(digest: str) -> str:
    """The path of a blob in a layout. Raises PullFailed."""
    if not _is_digest(digest):
        raise PullFailed("the image's manifest is not valid: it has an invalid digest")
    return f"blobs/{digest.replace(':', '/')}"


def sources_in(archive: Path) -> list[ImageSource]:
    """The images in an archive written by `docker save` or an OCI tool. Raises PullFailed."""
    try:
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
            if "oci-layout" in names:
                return _oci_sources(archive, _member(tar, "index.json"))
            if "manifest.json" in names:
                return _docker_sources(archive, _member(tar, "manifest.json"))
    except (OSError, tarfile.TarError, orjson.JSONDecodeError) as error:
        raise PullFailed(f"{archive.name} is not an image archive: {error}") from error
    raise PullFailed(f"{archive.name} is not an image archive")


def _oci_sources(archive: Path, index: Object) -> list[ImageSource]:
    sources = []
    for manifest in index.get("manifests") or ():
        name = (manifest.get("annotations") or {}).get("org.opencontainers.image.ref.name") or ""
        location = f"oci-archive:{archive}:{name}" if name else f"oci-archive:{archive}"
        sources.append(ImageSource(location, (name,) if name else ()))
    return sources


def _docker_sources(archive: Path, manifest: Sequence[Object]) -> list[ImageSource]:
    return [
        ImageSource(f"docker-archive:{archive}:@{number}", tuple(entry.get("RepoTags") or ()))
        for number, entry in enumerate(manifest)
    ]


def _member(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    if file is None:
        raise PullFailed(f"{name} in the archive is not a file")
    return orjson.loads(file.read(DESCRIPTION_BYTES_MAX))
