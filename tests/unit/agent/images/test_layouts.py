"""What images say of themselves, by honest and by hostile authors."""

import hashlib
import os
import resource
from pathlib import Path
from typing import Any

import orjson
import pytest

from alcove.agent.images.layouts import CONFIG_BYTES_MAX, DESCRIPTION_BYTES_MAX, LAYERS_MAX, config_of
from alcove.agent.images.model import PullFailed
from alcove.agent.runtime.config import ImageConfig

LAYER = {"digest": f"sha256:{'0' * 64}", "size": 1, "mediaType": "application/vnd.oci.image.layer.v1.tar"}


def add_blob(layout: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return f"sha256:{digest}"


def make_layout(layout: Path, config: bytes, layers: int = 1, config_digest: str = "") -> str:
    """An OCI layout like skopeo's; returns the manifest's digest."""
    digest = config_digest or add_blob(layout, config)
    described = {"config": {"digest": digest}, "layers": [LAYER] * layers}
    digest = add_blob(layout, orjson.dumps(described))
    (layout / "index.json").write_bytes(orjson.dumps({"manifests": [{"digest": digest}]}))
    return digest


def settings(**config: Any) -> bytes:
    return orjson.dumps({"architecture": "amd64", "config": config, "history": [{"created_by": "x"}]})


def test_the_configuration_of_an_image(tmp_path: Path) -> None:
    digest = make_layout(
        tmp_path,
        settings(Entrypoint=["/a"], Cmd=["b"], Env=["C=d"], WorkingDir="/e", User="f", StopSignal="SIGINT"),
    )
    assert config_of(tmp_path) == (digest, ImageConfig(("/a",), ("b",), ("C=d",), "/e", "f", "SIGINT"))


@pytest.mark.parametrize("config", [b"{}", b'{"config":null}', settings(Cmd=None, Env=None, User=None)])
def test_an_image_need_not_set_anything(tmp_path: Path, config: bytes) -> None:
    make_layout(tmp_path, config)
    assert config_of(tmp_path)[1] == ImageConfig()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (settings(Env=["A=" + "x" * CONFIG_BYTES_MAX]), "entry point, command and environment have more"),
        (settings(Cmd=["x"] * (CONFIG_BYTES_MAX // 4 + 1)), "entry point, command and environment have more"),
        (settings(Labels={"x": "y" * DESCRIPTION_BYTES_MAX}), f"more than {DESCRIPTION_BYTES_MAX} bytes"),
        (b'{"config":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid"),
        (b'{"history":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid"),
        (settings(Env="A=b"), "not valid"),
        (settings(User={"name": "root"}), "not valid"),
        (b"\xff\xfe", "not valid"),
        (b"", "not valid"),
    ],
)
def test_a_hostile_configuration_is_refused(tmp_path: Path, config: bytes, message: str) -> None:
    make_layout(tmp_path, config)
    with pytest.raises(PullFailed, match=message):
        config_of(tmp_path)


def test_too_many_layers_are_refused(tmp_path: Path) -> None:
    make_layout(tmp_path, b"{}", LAYERS_MAX)
    config_of(tmp_path)
    make_layout(tmp_path, b"{}", LAYERS_MAX + 1)
    with pytest.raises(PullFailed, match=f"more than {LAYERS_MAX} layers"):
        config_of(tmp_path)


@pytest.mark.parametrize(
    "digest", ["sha256:../../../secret", "../secret", "sha256:", "sha256:" + "A" * 64, "md5:" + "0" * 32]
)
def test_a_digest_is_no_path(tmp_path: Path, digest: str) -> None:
    (tmp_path / "secret").write_bytes(settings(User="secret"))
    make_layout(tmp_path / "layout", b"{}", config_digest=digest)
    with pytest.raises(PullFailed, match="invalid digest"):
        config_of(tmp_path / "layout")


def test_a_blob_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(settings(User="secret"))
    make_layout(tmp_path / "layout", settings(User="me"))
    blob = tmp_path / "layout/blobs/sha256" / hashlib.sha256(settings(User="me")).hexdigest()
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    with pytest.raises(PullFailed, match="incomplete"):
        config_of(tmp_path / "layout")


def test_a_sparse_manifest_of_many_gigabytes_costs_no_memory(tmp_path: Path) -> None:
    make_layout(tmp_path, b"{}")
    os.truncate(tmp_path / "index.json", 60 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PullFailed, match=f"more than {DESCRIPTION_BYTES_MAX} bytes"):
        config_of(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
