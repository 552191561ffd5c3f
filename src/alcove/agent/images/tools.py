"""skopeo fetches images, umoci unpacks them; here they are called, and their complaints understood."""

import asyncio
import hashlib
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
from msgspec import Struct

from alcove.agent.images.model import PullFailed, ToolMissing
from alcove.agent.runtime.config import ImageConfig
from alcove.api.objects import Object

PULL_SECONDS_MAX = 600.0
FREE_PERCENT_MIN = 5
"""No image is fetched or unpacked into what is left of the disk: others' pods need it."""
_LOOK_SECONDS = 0.5
_MANIFEST_BYTES_MAX = 4 << 20
_TAG = "image"


class RegistryCredentials(Struct, frozen=True):
    """What a tenant's pull secrets say, as Docker's configuration file has it: `{"auths": {…}}`."""

    auths: Object = {}


class ImageSource(Struct, frozen=True):
    """Where skopeo takes an image from, and the names it has there."""

    location: str
    names: tuple[str, ...] = ()


class ImageTools:
    def __init__(self, insecure_hosts: Sequence[str] = ()) -> None:
        self._insecure = tuple(insecure_hosts)
        """Registries that are reached without TLS."""

    async def digest(self, name: str, credentials: RegistryCredentials) -> str:
        """What the registry has under that name, if these credentials may see it."""
        with _AuthFile(credentials) as auth:
            options = (*self._options(name, "--tls-verify"), "--authfile", auth)
            raw = await _run("skopeo", "inspect", "--raw", *options, f"docker://{name}")
        return f"sha256:{hashlib.sha256(raw).hexdigest()}"

    async def fetch(self, name: str, layout: Path, credentials: RegistryCredentials) -> None:
        with _AuthFile(credentials) as auth:
            options = (*self._options(name, "--src-tls-verify"), "--src-authfile", auth)
            target = f"oci:{layout}:{_TAG}"
            await _run("skopeo", "copy", "--quiet", *options, f"docker://{name}", target, into=layout.parent)

    async def copy(self, source: ImageSource, layout: Path) -> None:
        target = f"oci:{layout}:{_TAG}"
        await _run("skopeo", "copy", "--quiet", source.location, target, into=layout.parent)

    async def unpack(self, layout: Path, rootfs: Path) -> None:
        await _run("umoci", "raw", "unpack", "--image", f"{layout}:{_TAG}", str(rootfs), into=layout.parent)
        # Device nodes of an image would be the node's devices: whatever mounts the files later, none is there.
        devices = ("(", "-type", "b", "-o", "-type", "c", ")", "-delete")
        await _run("find", str(rootfs), "-xdev", *devices)

    def _options(self, name: str, option: str) -> tuple[str, ...]:
        return (f"{option}=false",) if name.partition("/")[0] in self._insecure else ()


class _AuthFile:
    """Credentials in a file that only root can read, and only while they are used."""

    def __init__(self, credentials: RegistryCredentials) -> None:
        self._auths = credentials.auths

    def __enter__(self) -> str:
        with NamedTemporaryFile(prefix="alcove-auth-", delete=False) as file:
            file.write(orjson.dumps({"auths": self._auths}))
        self._path = Path(file.name)
        return file.name

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def config_of(layout: Path) -> tuple[str, ImageConfig]:
    """The digest of an image's manifest, and what it says about running it."""
    index = _json(layout / "index.json")
    digest = index["manifests"][0]["digest"]
    config: Object = (
        _json(_blob(layout, _json(_blob(layout, digest))["config"]["digest"])).get("config") or {}
    )
    return digest, ImageConfig(
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        env=tuple(config.get("Env") or ()),
        working_dir=config.get("WorkingDir") or "",
        user=config.get("User") or "",
        stop_signal=config.get("StopSignal") or "",
    )


def sources_in(archive: Path) -> list[ImageSource]:
    """The images in an archive, as `docker save` or an OCI tool made it."""
    try:
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
            if "oci-layout" in names:
                return _oci_sources(archive, _member(tar, "index.json"))
            if "manifest.json" in names:
                return _docker_sources(archive, _member(tar, "manifest.json"))
    except (OSError, tarfile.TarError, orjson.JSONDecodeError) as error:
        raise PullFailed(f"{archive.name} is no archive of images: {error}") from error
    raise PullFailed(f"{archive.name} is no archive of images")


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
        raise PullFailed(f"{name} in the archive is no file")
    return orjson.loads(file.read(_MANIFEST_BYTES_MAX))


def _json(path: Path) -> Object:
    return orjson.loads(path.read_bytes())  # type: ignore[no-any-return]


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, value = digest.partition(":")
    return layout / "blobs" / algorithm / value


async def _run(program: str, *arguments: str, into: Path | None = None) -> bytes:
    """What the program says. It ends with us, and before it fills the disk of `into`."""
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(f"{program} is not installed")
    _check_space(into)
    child = await asyncio.create_subprocess_exec(
        *("setpriv", "--pdeathsig", "KILL", "--", found, *arguments),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": "/nonexistent"},
    )  # fmt: skip
    ending = asyncio.create_task(child.communicate())
    try:
        async with asyncio.timeout(PULL_SECONDS_MAX):
            while not (await asyncio.wait({ending}, timeout=_LOOK_SECONDS))[0]:
                _check_space(into)
    except TimeoutError:
        raise PullFailed(f"{program} took more than {PULL_SECONDS_MAX:.0f} seconds") from None
    finally:
        if child.returncode is None:
            child.kill()
        output, complaint = await ending
    if child.returncode:
        # Tenants read this: where images are kept is the node's business.
        raise PullFailed(_reason(complaint.decode(errors="replace").replace(f"{into}/", "")))
    return output


def _check_space(folder: Path | None) -> None:
    disk = os.statvfs(folder) if folder is not None else None
    if disk is not None and disk.f_bavail * 100 < disk.f_blocks * FREE_PERCENT_MIN:
        raise PullFailed(f"no space left on device: less than {FREE_PERCENT_MIN} % of the disk is free")


def _reason(complaint: str) -> str:
    """The last line, without what only a log needs."""
    line = (complaint.strip().splitlines() or ["no reason given"])[-1]
    _, found, message = line.partition('msg="')
    return message.removesuffix('"') if found else line
