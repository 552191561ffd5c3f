"""Runs skopeo, which fetches images, and umoci, which unpacks them, and turns their failures into
PullFailed.

Images of tenants are fetched in a network of their own (`pull_network.py`), those of ring0 from the node's.
"""

import asyncio
import hashlib
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson
from msgspec import Struct

from alcove.agent.images.model import PullFailed, ToolMissing
from alcove.agent.images.pull_network import PullNetwork
from alcove.agent.images.registry_dialer import RegistryDialer
from alcove.agent.runtime.config import ImageConfig
from alcove.api.destinations import Network
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.dataplane.errors import KernelRefused

PULL_SECONDS_MAX = 600.0
FREE_PERCENT_MIN = 5
"""Images are not fetched or unpacked if less of the disk would be free."""
_CHECK_SECONDS = 0.5
_MANIFEST_BYTES_MAX = 4 << 20
_TAG = "image"


class RegistryCredentials(Struct, frozen=True):
    """Credentials in the form of Docker's configuration file: `{"auths": {…}}`."""

    auths: Object = {}


class ImageSource(Struct, frozen=True):
    """An image in an archive: its location for skopeo, and its names there."""

    location: str
    names: tuple[str, ...] = ()


class ImageTools:
    def __init__(self, insecure_hosts: Sequence[str] = (), networks: Sequence[Network] = ()) -> None:
        """`insecure_hosts`: registries that are accessed without verified TLS, wherever they are. `networks`:
        networks that are not public, but in which tenants' registries may be."""
        self._insecure = tuple(insecure_hosts)
        self.dialer = RegistryDialer(insecure_hosts, networks)

    async def digest(self, tenant: TenantId, name: str, credentials: RegistryCredentials) -> str:
        """The digest that the registry has for the name, if the credentials allow it."""
        with _AuthFile(credentials) as auth:
            options = (*self._options(name, "--tls-verify"), "--authfile", auth)
            async with self._network(tenant, name) as network:
                raw = await _run("skopeo", "inspect", "--raw", *options, f"docker://{name}", network=network)
        return f"sha256:{hashlib.sha256(raw).hexdigest()}"

    async def fetch(
        self, tenant: TenantId, name: str, layout: Path, credentials: RegistryCredentials
    ) -> None:
        with _AuthFile(credentials) as auth:
            options = (*self._options(name, "--src-tls-verify"), "--src-authfile", auth)
            arguments = ("copy", "--quiet", *options, f"docker://{name}", f"oci:{layout}:{_TAG}")
            async with self._network(tenant, name) as network:
                await _run("skopeo", *arguments, into=layout.parent, network=network)

    @asynccontextmanager
    async def _network(self, tenant: TenantId, name: str) -> AsyncIterator[PullNetwork | None]:
        """None for ring0, which may use the node's network. Raises PullFailed."""
        if tenant == SYSTEM:
            yield None
            return
        network = PullNetwork(self.dialer, name)
        try:
            await network.__aenter__()
        except (KernelRefused, OSError) as error:
            raise PullFailed("the node failed to set up a network for the image pull") from error
        try:
            yield network
        finally:
            await network.__aexit__(None, None, None)

    async def copy(self, source: ImageSource, layout: Path) -> None:
        target = f"oci:{layout}:{_TAG}"
        await _run("skopeo", "copy", "--quiet", source.location, target, into=layout.parent)

    async def unpack(self, layout: Path, rootfs: Path) -> None:
        await _run("umoci", "raw", "unpack", "--image", f"{layout}:{_TAG}", str(rootfs), into=layout.parent)
        # Device nodes in an image would give access to the node's devices, so they are removed.
        devices = ("(", "-type", "b", "-o", "-type", "c", ")", "-delete")
        await _run("find", str(rootfs), "-xdev", *devices)

    def _options(self, name: str, option: str) -> tuple[str, ...]:
        return (f"{option}=false",) if name.partition("/")[0] in self._insecure else ()


class _AuthFile:
    """Credentials in a file that only root can read, deleted after use."""

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
    """The digest of the image's manifest, and its configuration."""
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
    return orjson.loads(file.read(_MANIFEST_BYTES_MAX))


def _json(path: Path) -> Object:
    return orjson.loads(path.read_bytes())  # type: ignore[no-any-return]


def _blob(layout: Path, digest: str) -> Path:
    algorithm, _, value = digest.partition(":")
    return layout / "blobs" / algorithm / value


async def _run(
    program: str, *arguments: str, into: Path | None = None, network: PullNetwork | None = None
) -> bytes:
    """The program's output. It is killed when the agent exits, and before it fills the disk of `into`. It runs
    in `network`, or in the node's. Raises PullFailed, ToolMissing."""
    path = shutil.which(program)
    if path is None:
        raise ToolMissing(f"{program} is not installed")
    _check_space(into)
    before = network.command if network is not None else ()
    environment = network.environment() if network is not None else os.environ
    child = await asyncio.create_subprocess_exec(
        *(*before, "setpriv", "--pdeathsig", "KILL", "--", path, *arguments),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**environment, "HOME": "/nonexistent"},
    )  # fmt: skip
    communicate = asyncio.create_task(child.communicate())
    try:
        async with asyncio.timeout(PULL_SECONDS_MAX):
            while not (await asyncio.wait({communicate}, timeout=_CHECK_SECONDS))[0]:
                _check_space(into)
    except TimeoutError:
        raise PullFailed(f"{program} timed out after {PULL_SECONDS_MAX:.0f} seconds") from None
    finally:
        if child.returncode is None:
            child.kill()
        output, errors = await communicate
    if child.returncode:
        # Tenants see this message: remove paths of the node.
        raise PullFailed(_last_message(errors.decode(errors="replace").replace(f"{into}/", "")))
    return output


def _check_space(directory: Path | None) -> None:
    disk = os.statvfs(directory) if directory is not None else None
    if disk is not None and disk.f_bavail * 100 < disk.f_blocks * FREE_PERCENT_MIN:
        raise PullFailed(f"no space left on device: less than {FREE_PERCENT_MIN}% of the disk is free")


def _last_message(errors: str) -> str:
    """The message in the last line of the program's error output."""
    line = (errors.strip().splitlines() or ["unknown error"])[-1]
    _, separator, message = line.partition('msg="')
    return message.removesuffix('"') if separator else line
