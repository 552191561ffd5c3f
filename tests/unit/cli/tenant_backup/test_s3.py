"""Backups by the S3 API, on moto's server."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from alcove.cli.errors import CliError
from alcove.cli.tenant_backup import places, s3
from alcove.cli.tenant_backup.pruning import prune


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client with an empty bucket `backups`, configured as users configure theirs."""
    settings = {
        "ENDPOINT_URL": endpoint,
        "ACCESS_KEY_ID": "a",
        "SECRET_ACCESS_KEY": "b",
        "DEFAULT_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(s3, "PART_BYTES", 5 << 20)  # The least that S3 takes.
    client = boto3.client("s3")
    client.create_bucket(Bucket="backups")
    for each in client.list_objects_v2(Bucket="backups").get("Contents", ()):
        client.delete_object(Bucket="backups", Key=each["Key"])
    return client


@pytest.mark.parametrize("size", [0, 7, 12 << 20])
def test_what_was_uploaded_is_downloaded(store: Any, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    place = f"s3://backups/of/acme-{size}"
    with s3.upload(place) as out:
        for at in range(0, size, 1 << 20):
            out.write(content[at : at + (1 << 20)])
    with s3.download(place) as stream:
        assert stream.read() == content


def test_old_backups_are_removed_and_nothing_else(store: Any) -> None:
    others = ("acme/notes", "acme/old/0.backup", "acmes/0.backup", "0.backup")
    for key in (*others, *(f"acme/{number}.backup" for number in range(5))):
        store.put_object(Bucket="backups", Key=key, Body=b"x")
    assert prune("s3://backups/acme/4.backup", 2) == [
        f"s3://backups/acme/{number}.backup" for number in range(3)
    ]
    left = {each["Key"] for each in store.list_objects_v2(Bucket="backups")["Contents"]}
    assert left == {*others, "acme/3.backup", "acme/4.backup"}


def test_nothing_is_left_of_an_upload_that_failed(store: Any) -> None:
    with pytest.raises(RuntimeError), s3.upload("s3://backups/half") as out:
        out.write(b"x" * (6 << 20))
        raise RuntimeError
    assert "Contents" not in store.list_objects_v2(Bucket="backups")
    assert not store.list_multipart_uploads(Bucket="backups").get("Uploads")


def test_an_existing_object_is_never_replaced(store: Any) -> None:
    store.put_object(Bucket="backups", Key="old", Body=b"old")
    with pytest.raises(CliError, match="already exists"), s3.upload("s3://backups/old"):
        pass
    assert store.get_object(Bucket="backups", Key="old")["Body"].read() == b"old"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s3://missing/key", "s3://missing/key: .*bucket does not exist"),
        ("s3://backups/missing", "s3://backups/missing: .*NoSuchKey"),
        ("s3://backups/", "is not s3://BUCKET/KEY"),
        ("s3:///key", "is not s3://BUCKET/KEY"),
    ],
)
def test_a_place_that_is_not_there_is_named(store: Any, place: str, message: str) -> None:
    with pytest.raises(CliError, match=message), s3.download(place):
        pass


def test_a_store_that_does_not_answer_is_an_error(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(CliError, match="Could not connect"), s3.upload("s3://backups/key"):
        pass


def test_an_encrypted_backup_goes_there_and_back(store: Any) -> None:
    with places.writing("s3://backups/sealed", b"correct horse") as out:
        out.write(b"content")
    assert b"content" not in store.get_object(Bucket="backups", Key="sealed")["Body"].read()
    with places.local_copy("s3://backups/sealed") as file, places.reading(file, b"correct horse") as stream:
        assert stream.read() == b"content"
    assert not file.exists()
