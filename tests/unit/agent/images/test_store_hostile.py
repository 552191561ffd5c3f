"""Hostile images: nothing in their layers is written outside their own directory."""

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

import orjson
import pytest

from alcove.agent.images import disk_share, layouts
from alcove.agent.images.layouts import CONFIG_BYTES_MAX, DESCRIPTION_BYTES_MAX
from alcove.agent.images.model import PullFailed
from alcove.agent.images.store import ImageStore
from alcove.agent.images.tools import MESSAGE_LENGTH_MAX, ImageTools, RegistryCredentials
from alcove.api.ids import TenantId
from alcove.testing.registry import LocalImageRegistry

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or any(shutil.which(name) is None for name in ("skopeo", "umoci")),
        reason="needs root, skopeo and umoci",
    ),
]


def _layer(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


def _archive(path: Path, *layers: bytes) -> Path:
    """As `docker save` makes it."""
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diffs}}
    manifest = [
        {
            "Config": "config.json",
            "RepoTags": ["hostile:1"],
            "Layers": [f"{number}/layer.tar" for number in range(len(layers))],
        }
    ]
    files = {"config.json": orjson.dumps(config), "manifest.json": orjson.dumps(manifest)}
    files |= {f"{number}/layer.tar": layer for number, layer in enumerate(layers)}
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


async def test_no_file_leaves_its_image(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched")
    steps = [
        [(_entry("link", tarfile.SYMTYPE, str(outside)), b""), (_entry("link/planted"), b"evil")],
        [
            (_entry("up", tarfile.SYMTYPE, "../../../../../../.."), b""),
            (_entry(f"up{outside}/planted"), b"evil"),
        ],
        [(_entry(f"../../../../../../../..{outside}/planted"), b"evil")],
        [(_entry(f"{outside}/planted"), b"evil")],
        [(_entry("hard", tarfile.LNKTYPE, str(outside / "victim")), b""), (_entry("hard"), b"evil")],
        [(_entry("link", tarfile.SYMTYPE, str(outside)), b""), (_entry("link/.wh.victim"), b"")],
    ]
    for number, members in enumerate(steps):
        store = ImageStore(tmp_path / f"images-{number}")
        archive = _archive(tmp_path / f"{number}.tar", _layer([(_entry("kept"), b"x")]), _layer(members))
        try:
            await store.load(archive)
        except PullFailed:
            assert store.all() == []
        assert [path.name for path in outside.iterdir()] == ["victim"], number
        assert (outside / "victim").read_text() == "untouched", number


async def test_device_nodes_of_an_image_are_removed(tmp_path: Path) -> None:
    disk = _entry("dev/disk", tarfile.BLKTYPE)
    disk.devmajor, disk.devminor = 254, 0
    memory = _entry("mem", tarfile.CHRTYPE)
    memory.devmajor, memory.devminor = 1, 1
    members = [(_entry("dev", tarfile.DIRTYPE), b""), (disk, b""), (memory, b""), (_entry("file"), b"x")]
    [image] = await ImageStore(tmp_path / "images").load(_archive(tmp_path / "x.tar", _layer(members)))
    assert sorted(str(path.relative_to(image.rootfs)) for path in image.rootfs.rglob("*")) == ["dev", "file"]


async def test_a_disk_that_is_nearly_full_gets_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alcove.agent.images.tools.FREE_PERCENT_MIN", 101)
    with pytest.raises(PullFailed, match="no space left on device"):
        await ImageStore(tmp_path / "images").load(_archive(tmp_path / "x.tar", _layer([])))
    assert list((tmp_path / "images").glob("*-*")) == []


class HostileRegistry(LocalImageRegistry):
    """Serves one image whose manifest and configuration are whatever the test wants."""

    def __init__(self, config: bytes, layers: int = 1, padding: int = 0) -> None:
        super().__init__({})
        layer = _layer([(_entry("file"), b"x")])
        blobs = [config, layer]
        described = [
            {"mediaType": kind, "size": len(blob), "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}"}
            for kind, blob in (
                ("application/vnd.oci.image.config.v1+json", config),
                ("application/vnd.oci.image.layer.v1.tar", layer),
            )
        ]
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described[0],
            "layers": [described[1]] * layers,
            "annotations": {"padding": "x" * padding},
        }
        self._manifest = orjson.dumps(manifest)
        self._blobs = {f"sha256:{hashlib.sha256(blob).hexdigest()}": blob for blob in blobs}

    def manifest(self, repository: str, reference: str) -> tuple[bytes | None, str]:
        return self._manifest, "application/vnd.oci.image.manifest.v1+json"

    def blob(self, repository: str, digest: str) -> bytes | None:
        return self._blobs.get(digest)


def _config(layers: int = 1, **config: object) -> bytes:
    diff = f"sha256:{hashlib.sha256(_layer([(_entry('file'), b'x')])).hexdigest()}"
    rootfs = {"type": "layers", "diff_ids": [diff] * layers}
    return orjson.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs})


@pytest.mark.parametrize(
    ("config", "layers", "padding", "works"),
    [
        (_config(Env=["A=b"]), 1, 0, True),
        (_config(), 1, DESCRIPTION_BYTES_MAX, False),
        (_config(Labels={"x": "y" * DESCRIPTION_BYTES_MAX}), 1, 0, False),
        (_config(Env=["A=" + "x" * CONFIG_BYTES_MAX]), 1, 0, False),
        (_config(5), 5, 0, False),
        (b"[" * 1_000_000, 1, 0, False),
    ],
    ids=["honest", "manifest", "configuration", "environment", "layers", "nesting"],
)
async def test_a_hostile_registry_fails_the_pull_and_nothing_else(
    tmp_path: Path, config: bytes, layers: int, padding: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "LAYERS_MAX", 4)
    with HostileRegistry(config, layers, padding) as registry:
        store = ImageStore(tmp_path / "images", ImageTools((registry.host,)))
        pulling = store.pull(TenantId("acme"), f"{registry.host}/a/b:1", RegistryCredentials())
        if works:
            assert (await pulling).config.env == ("A=b",)
            return
        with pytest.raises(PullFailed) as raised:
            await pulling
    assert len(str(raised.value)) <= MESSAGE_LENGTH_MAX
    assert store.all() == []
    assert not list((tmp_path / "images").glob("incoming-*")), "nothing is left of it"


async def test_a_tenant_without_room_loses_images_that_it_does_not_use_and_nobody_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, other = TenantId("acme"), TenantId("other")
    with (
        HostileRegistry(_config()) as registry,
        HostileRegistry(_config(Env=["A=b"])) as second,
        HostileRegistry(_config(Env=["A=c"])) as third,
    ):
        store = ImageStore(tmp_path / "images", ImageTools((registry.host, second.host, third.host)))
        kept = await store.pull(other, f"{second.host}/a/b:1", RegistryCredentials())
        monkeypatch.setattr(disk_share, "TENANT_PARTS", 1 << 60)
        with pytest.raises(PullFailed, match="images of a tenant may take"):
            await store.pull(acme, f"{registry.host}/a/b:1", RegistryCredentials())
        assert [each.digest for each in store.all()] == [kept.digest]
        assert not list((tmp_path / "images").glob("incoming-*")), "nothing is left of it"
        monkeypatch.undo()
        unused = await store.pull(acme, f"{registry.host}/a/b:1", RegistryCredentials())
        assert store.usage(acme).bytes == unused.size_bytes > 0 and store.usage(acme).files > 0
        assert await store.collect((), 1 << 60, 0.0) == [], "there is room for all"
        monkeypatch.setattr(disk_share, "TENANT_PARTS", 1 << 60)
        with pytest.raises(PullFailed, match="images of a tenant may take"):
            await store.pull(acme, f"{third.host}/a/b:1", RegistryCredentials())
        assert await store.collect((), 1 << 60, 0.0) == [unused.digest]
        assert [each.digest for each in store.all()] == [kept.digest]
        assert store.usage(acme).bytes == 0
