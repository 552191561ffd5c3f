"""Runs skopeo, which fetches images, and umoci, which unpacks them, and turns their failures into
PullFailed.

Images of tenants are fetched in a network of their own (`pull_network.py`), those of ring0 from the node's.
"""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import orjson
from msgspec import Struct

from alcove.agent import file_trees
from alcove.agent.file_trees import TreeUsage
from alcove.agent.images import disk_share
from alcove.agent.images.layouts import DESCRIPTION_BYTES_MAX, ImageSource
from alcove.agent.images.model import PullFailed, ToolMissing, TooMuchForTenant
from alcove.agent.images.pull_network import PullNetwork
from alcove.agent.images.registry_dialer import RegistryDialer
from alcove.api.destinations import Network
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.dataplane.errors import KernelRefused

PULL_SECONDS_MAX = 600.0
FREE_PERCENT_MIN = 5
"""Images are not fetched or unpacked if less of the disk, or of its inodes, would be free."""
OUTPUT_BYTES_MAX = DESCRIPTION_BYTES_MAX
"""Output of one command, which may be an image's manifest; if there is more, the pull fails."""
ERRORS_BYTES_MAX = 64 << 10
"""How much is kept of the end of one command's error output, which may quote a registry."""
MESSAGE_LENGTH_MAX = 1_024
"""Length of the message of one failed command; the rest is cut off."""
MEASURE_SECONDS_MAX = 60.0
"""Time to count the files of an image that is being fetched; one that takes longer has too many."""
_CHECK_SECONDS = 0.5
_MEASURING_PARTS = 9
"""A tenth of the time, at most, goes into measuring an image while it is fetched."""
_READ_BYTES = 64 << 10
_TAG = "image"


class RegistryCredentials(Struct, frozen=True):
    """Credentials in the form of Docker's configuration file: `{"auths": {…}}`."""

    auths: Object = {}


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
        self,
        tenant: TenantId,
        name: str,
        layout: Path,
        credentials: RegistryCredentials,
        room: TreeUsage | None = None,
    ) -> None:
        """Fetches into `layout`, whose folder may take no more than `room`. Raises PullFailed, TooMuchForTenant."""
        with _AuthFile(credentials) as auth:
            options = (*self._options(name, "--src-tls-verify"), "--src-authfile", auth)
            arguments = ("copy", "--quiet", *options, f"docker://{name}", f"oci:{layout}:{_TAG}")
            async with self._network(tenant, name) as network:
                await _run("skopeo", *arguments, into=layout.parent, room=room, network=network)

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

    async def unpack(self, layout: Path, rootfs: Path, room: TreeUsage | None = None) -> None:
        """As `fetch`: a small image may be unpacked to a large one."""
        arguments = ("raw", "unpack", "--image", f"{layout}:{_TAG}", str(rootfs))
        await _run("umoci", *arguments, into=layout.parent, room=room)
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


async def _run(
    program: str,
    *arguments: str,
    into: Path | None = None,
    room: TreeUsage | None = None,
    network: PullNetwork | None = None,
) -> bytes:
    """The program's output. It is killed when the agent exits, before it fills the disk of `into`, and when that
    folder takes more than `room`. It runs in `network`, or in the node's. Raises PullFailed, ToolMissing,
    TooMuchForTenant."""
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
    communicate = asyncio.create_task(_communicate(child))
    try:
        async with asyncio.timeout(PULL_SECONDS_MAX):
            measure_at = 0.0
            while not (await asyncio.wait({communicate}, timeout=_CHECK_SECONDS))[0]:
                _check_space(into)
                if into is not None and room is not None and (now := time.monotonic()) >= measure_at:
                    await check_room(into, room)
                    measure_at = time.monotonic() + _MEASURING_PARTS * (time.monotonic() - now)
    except TimeoutError:
        raise PullFailed(f"{program} timed out after {PULL_SECONDS_MAX:.0f} seconds") from None
    finally:
        if child.returncode is None:
            child.kill()
        output, errors = await communicate
    if len(output) > OUTPUT_BYTES_MAX:
        raise PullFailed(f"the output of {program} has more than {OUTPUT_BYTES_MAX} bytes")
    if child.returncode:
        # Tenants see this message: remove paths of the node.
        raise PullFailed(_last_message(errors.decode(errors="replace").replace(f"{into}/", "")))
    return output


async def _communicate(child: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """The child's output, and the end of its error output, when it has exited. Kills it if its output is longer
    than OUTPUT_BYTES_MAX; then what is returned is longer as well."""
    output, errors = await asyncio.gather(_output(child), _errors(child))
    await child.wait()
    return output, errors


async def _output(child: asyncio.subprocess.Process) -> bytes:
    assert child.stdout is not None
    output = bytearray()
    while data := await child.stdout.read(_READ_BYTES):
        if len(output) <= OUTPUT_BYTES_MAX:
            output += data
        elif child.returncode is None:
            child.kill()
    return bytes(output)


async def _errors(child: asyncio.subprocess.Process) -> bytes:
    assert child.stderr is not None
    errors = b""
    while data := await child.stderr.read(_READ_BYTES):
        errors = (errors + data)[-ERRORS_BYTES_MAX:]
    return errors


async def check_room(directory: Path, room: TreeUsage | None) -> TreeUsage:
    """What the folder takes. Raises TooMuchForTenant if that is more than `room`; None if it is not limited."""
    [used] = await asyncio.to_thread(file_trees.usages, [directory], MEASURE_SECONDS_MAX)
    if room is not None and disk_share.exceeds(used, room):
        raise TooMuchForTenant(
            f"images of a tenant may take 1/{disk_share.TENANT_PARTS} of the node's disk, and no more than is free"
        )
    return used


def _check_space(directory: Path | None) -> None:
    if directory is None:
        return
    disk = os.statvfs(directory)
    if disk.f_bavail * 100 < disk.f_blocks * FREE_PERCENT_MIN:
        raise PullFailed(f"no space left on device: less than {FREE_PERCENT_MIN}% of the disk is free")
    if disk.f_favail * 100 < disk.f_files * FREE_PERCENT_MIN:
        raise PullFailed(
            f"no space left on device: less than {FREE_PERCENT_MIN}% of the disk's inodes are free"
        )


def _last_message(errors: str) -> str:
    """The message in the last line of the program's error output."""
    line = (errors.strip().splitlines() or ["unknown error"])[-1]
    _, separator, message = line.partition('msg="')
    return (message.removesuffix('"') if separator else line)[:MESSAGE_LENGTH_MAX]
