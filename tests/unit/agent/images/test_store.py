"""The images of a node: archives, registries, tenants, garbage collection."""

import asyncio
import base64
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from alcove.agent.images import builtin
from alcove.agent.images.model import Image, ImageMissing, PullFailed, ToolMissing
from alcove.agent.images.store import ALL_TENANTS, Catalogue, ImageStore, StagingDirectory
from alcove.agent.images.tools import ImageTools, RegistryCredentials
from alcove.api.ids import TenantId
from alcove.testing.registry import LocalImageRegistry

ACME, BOLT = TenantId("acme"), TenantId("bolt")
_WRITER = """
import sys
from pathlib import Path
from alcove.agent.images.store import Catalogue
catalogue = Catalogue(Path(sys.argv[1]))
for number in range(100):
    with catalogue.edit() as names:
        names.setdefault(sys.argv[2], {})[f"{number}"] = "sha256:0"
"""


def _lacking() -> str:
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("skopeo", "umoci") if shutil.which(name) is None]
    try:
        builtin.find()
    except ToolMissing as error:
        return str(error)
    return f"needs {' and '.join(missing)}" if missing else ""


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "-")]


def _run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An image as others make them: two layers, one that deletes what the other brought."""
    folder = tmp_path_factory.mktemp("image")
    path = folder / "layout"
    (folder / "first").mkdir()
    (folder / "first/old").write_text("old")
    (folder / "first/kept").write_text("kept")
    _run("umoci", "init", "--layout", path)
    _run("umoci", "new", "--image", f"{path}:x")
    _run("umoci", "insert", "--image", f"{path}:x", folder / "first", "/data")
    _run("umoci", "insert", "--image", f"{path}:x", "--whiteout", "/data/old")
    _run(
        *(
            "umoci",
            "config",
            "--image",
            f"{path}:x",
            "--config.entrypoint",
            "/bin/serve",
            "--config.cmd",
            "now",
        ),
        *("--config.env", "LEVEL=info", "--config.user", "web", "--config.workingdir", "/srv"),
    )
    yield path


def _check(image: Image) -> None:
    assert (image.rootfs / "data/kept").read_text() == "kept"
    assert not (image.rootfs / "data/old").exists()
    assert (image.config.entrypoint, image.config.command) == (("/bin/serve",), ("now",))
    assert ("LEVEL=info" in image.config.env, image.config.user, image.config.working_dir) == (
        True,
        "web",
        "/srv",
    )
    assert image.digest.startswith("sha256:")
    assert image.size_bytes > 0


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def test_the_built_in_image_is_everybodys(store: ImageStore) -> None:
    image = store.add_builtin()
    assert store.add_builtin() == image
    for name in (builtin.NAME, "alcove/busybox"):
        assert store.find(ACME, name) == image
    done = subprocess.run(
        ["chroot", image.rootfs, "/bin/sh", "-c", "echo from inside"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "from inside\n"
    assert image.accounts().passwd.startswith("root:x:0:0:")


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
async def test_archives(store: ImageStore, layout: Path, tmp_path: Path, kind: str) -> None:
    archive = tmp_path / "x.tar"
    _run("skopeo", "copy", f"oci:{layout}:x", f"{kind}:{archive}:shop/web:v1")
    [image] = await store.load(archive)
    _check(image)
    assert store.find(ACME, "shop/web:v1") == image
    assert [each.digest for each in store.all()] == [image.digest]
    with pytest.raises(ImageMissing):
        store.find(ACME, "shop/web:v2")


async def test_what_is_no_archive(store: ImageStore, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("rubbish")
    with pytest.raises(PullFailed, match="not an image archive"):
        await store.load(tmp_path / "x.tar")
    with pytest.raises(PullFailed, match="not an image archive"):
        await store.load(tmp_path / "missing.tar")
    assert store.all() == []
    assert list((tmp_path / "images").glob("*-*")) == []


def credentials(host: str, password: str) -> RegistryCredentials:
    secret = base64.b64encode(f"me:{password}".encode()).decode()
    return RegistryCredentials({host: {"auth": secret}})


async def test_an_image_on_the_node_is_no_leave_to_use_it(layout: Path, tmp_path: Path) -> None:
    with LocalImageRegistry({"shop/web": layout}, "secret") as registry:
        host = registry.host
        store = ImageStore(tmp_path / "images", ImageTools([host]))
        name = f"{host}/shop/web:x"
        image = await store.pull(ACME, name, credentials(host, "secret"))
        _check(image)
        assert store.find(ACME, name).digest == image.digest
        with pytest.raises(ImageMissing):
            store.find(BOLT, name)
        with pytest.raises(PullFailed, match=r"(?i)unauthorized|authentication"):
            await store.pull(BOLT, name, RegistryCredentials())
        with pytest.raises(PullFailed):
            await store.pull(BOLT, name, credentials(host, "wrong"))
        with pytest.raises(ImageMissing):
            store.find(BOLT, name)
        given = registry.given.copy()
        assert (await store.pull(BOLT, name, credentials(host, "secret"))).digest == image.digest
        assert registry.given == given, "what is here already is not fetched again"


async def test_two_who_want_the_same_image_fetch_it_once(layout: Path, tmp_path: Path) -> None:
    with LocalImageRegistry({"shop/web": layout}) as registry:
        name = f"{registry.host}/shop/web:x"
        store = ImageStore(tmp_path / "images", ImageTools([registry.host]))
        pulls = [store.pull(tenant, name, RegistryCredentials()) for tenant in (ACME, BOLT)]
        assert len({image.digest for image in await asyncio.gather(*pulls)}) == 1
        assert set(registry.given.values()) == {1}
        assert len(store.all()) == 1
        assert store._fetching == {}


async def test_of_an_image_for_many_machines_this_ones_is_taken(layout: Path, tmp_path: Path) -> None:
    whole = tmp_path / "layout"
    shutil.copytree(layout, whole)
    index = orjson.loads((whole / "index.json").read_bytes())
    [own] = index["manifests"]
    other = {**own, "digest": f"sha256:{'0' * 64}", "platform": {"architecture": "s390x", "os": "linux"}}
    mine = {**own, "platform": {"architecture": _architecture(), "os": "linux"}}
    kind = "application/vnd.oci.image.index.v1+json"
    content = orjson.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [other, mine]})
    digest = hashlib.sha256(content).hexdigest()
    (whole / "blobs/sha256" / digest).write_bytes(content)
    annotations = {"org.opencontainers.image.ref.name": "many"}
    entry = {
        "mediaType": kind,
        "digest": f"sha256:{digest}",
        "size": len(content),
        "annotations": annotations,
    }
    (whole / "index.json").write_bytes(orjson.dumps({**index, "manifests": [own, entry]}))
    with LocalImageRegistry({"shop/web": whole}) as registry:
        store = ImageStore(tmp_path / "images", ImageTools([registry.host]))
        name = f"{registry.host}/shop/web:many"
        image = await store.pull(ACME, name, RegistryCredentials())
        _check(image)
        assert image.id_as(name) == f"{registry.host}/shop/web@sha256:{digest}"
        assert (await store.pull(BOLT, name, RegistryCredentials())).digest == image.digest


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


async def test_what_a_registry_does_not_have(layout: Path, tmp_path: Path) -> None:
    with LocalImageRegistry({"shop/web": layout}) as registry:
        host = registry.host
        store = ImageStore(tmp_path / "images", ImageTools([host]))
        with pytest.raises(PullFailed, match=r"(?i)not found|unknown|404"):
            await store.pull(ACME, f"{host}/shop/web:v2", RegistryCredentials())
    with pytest.raises(PullFailed, match=r"refused|reset|EOF|closed"):
        await store.pull(ACME, f"{host}/shop/web:x", RegistryCredentials())
    assert list((tmp_path / "images").glob("*-*")) == []


async def test_unused_images_are_removed_the_longest_unused_first(
    store: ImageStore, layout: Path, tmp_path: Path
) -> None:
    first = store.add_builtin()
    archive = tmp_path / "x.tar"
    _run("skopeo", "copy", f"oci:{layout}:x", f"docker-archive:{archive}:shop/web:v1")
    [second] = await store.load(archive)
    total = first.size_bytes + second.size_bytes
    assert await store.collect([], 0, 0) == [], "nobody could fetch what was loaded again"
    with store._catalogue.edit() as names:
        names[ACME] = names.pop(ALL_TENANTS)
    assert await store.collect([], 0) == [], "both were touched just now"
    assert await store.collect([], total, 0) == []
    os.utime(first.rootfs.parent / "image.json", (1, 1))
    assert await store.collect([first.digest, second.digest], 0, 0) == []
    assert await store.collect([], total - 1, 0) == [first.digest]
    assert [image.digest for image in store.all()] == [second.digest]
    assert await store.collect([], 0, 0) == [second.digest]
    assert store.all() == []
    with pytest.raises(ImageMissing):
        store.find(ACME, "shop/web:v1")


async def test_images_of_a_deleted_tenant_are_removed(layout: Path, tmp_path: Path) -> None:
    with LocalImageRegistry({"shop/web": layout}) as registry:
        host = registry.host
        store = ImageStore(tmp_path / "images", ImageTools([host]))
        image = await store.pull(ACME, f"{host}/shop/web:x", RegistryCredentials())
    store.forget_tenant(ACME)
    store.forget_tenant(ACME)
    assert await store.collect([image.digest], 10**9, 0) == []
    assert await store.collect([], 10**9, 0) == [image.digest]


def test_what_was_not_finished_is_removed_at_the_next_start(store: ImageStore, tmp_path: Path) -> None:
    unfinished = tmp_path / "images/incoming-1"
    (unfinished / "rootfs").mkdir(parents=True)
    assert ImageStore(tmp_path / "images").all() == []
    assert not unfinished.exists()


def test_accounts_are_read_from_the_image_only(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").symlink_to("/etc/passwd")
    image = Image("sha256:0", (), builtin.CONFIG, tmp_path, 0)
    assert image.accounts().passwd == ""
    assert ALL_TENANTS == ""


def test_two_processes_change_the_names_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", _WRITER, tmp_path, who]) for who in ("one", "two")]
    reader = Catalogue(tmp_path)
    while any(process.poll() is None for process in running):
        reader.read()
    assert [process.returncode for process in running] == [0, 0]
    assert {who: len(own) for who, own in reader.read().items()} == {"one": 100, "two": 100}


def test_tenants_without_names_are_removed_from_the_catalogue(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    assert catalogue.read() == {}
    with catalogue.edit() as names:
        names[ALL_TENANTS] = {"a:1": "sha256:0"}
    with catalogue.edit() as names:
        del names[ALL_TENANTS]["a:1"]
    assert Catalogue(tmp_path).read() == {}


def test_staging_directories_of_other_processes_are_not_cleaned(tmp_path: Path) -> None:
    with StagingDirectory(tmp_path) as made:
        (made / "file").touch()
        left = tmp_path / "incoming-left"
        left.mkdir()
        ImageStore(tmp_path)
        assert made.exists() and not left.exists()
    assert list(tmp_path.iterdir()) == []
