"""Backups in a store with the S3 API, by boto3: credentials, region and endpoint are configured as for other AWS clients
(`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL_S3`, or `~/.aws`)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from alcove.cli.errors import CliError, ExitCode

PART_BYTES = 16 << 20
"""S3 takes at most 10,000 parts: 160 GiB."""


@contextmanager
def upload(place: str) -> Iterator[BinaryIO]:
    """A stream into an object that appears when the block ends without an error. Memory is that of one part."""
    bucket, key = _split(place)
    with _errors(place):
        client = _client()
        if _exists(client, bucket, key):
            raise CliError(f"{place} already exists")
        begun = client.create_multipart_upload(Bucket=bucket, Key=key)
        writer = _PartWriter(client, bucket, key, begun["UploadId"])
        try:
            yield cast(BinaryIO, writer)
            writer.finish()
        except BaseException:
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=begun["UploadId"])
            raise


@contextmanager
def download(place: str) -> Iterator[BinaryIO]:
    bucket, key = _split(place)
    with _errors(place):
        body = _client().get_object(Bucket=bucket, Key=key)["Body"]
        try:
            yield cast(BinaryIO, body)
        finally:
            body.close()


def listed(folder: str) -> list[str]:
    """The places of all objects whose keys begin like the folder's, which ends with a slash."""
    bucket, prefix = _split(folder)
    with _errors(folder):
        pages = _client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [f"s3://{bucket}/{each['Key']}" for page in pages for each in page.get("Contents", ())]


def remove(place: str) -> None:
    bucket, key = _split(place)
    with _errors(place):
        _client().delete_object(Bucket=bucket, Key=key)


class _PartWriter(io.RawIOBase):
    def __init__(self, client: Any, bucket: str, key: str, upload_id: str) -> None:
        self._client = client
        self._names = {"Bucket": bucket, "Key": key, "UploadId": upload_id}
        self._pending = bytearray()
        self._parts: list[dict[str, Any]] = []

    def writable(self) -> bool:
        return True

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        self._pending += chunk
        if len(self._pending) >= PART_BYTES:
            self._send()
        return len(chunk)

    def finish(self) -> None:
        self._send()
        self._client.complete_multipart_upload(**self._names, MultipartUpload={"Parts": self._parts})

    def _send(self) -> None:
        number = len(self._parts) + 1
        sent = self._client.upload_part(**self._names, PartNumber=number, Body=bytes(self._pending))
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})
        self._pending.clear()


def _split(place: str) -> tuple[str, str]:
    parts = urlsplit(place)
    key = parts.path.lstrip("/")
    if not parts.netloc or not key:
        raise CliError(f"{place} is not s3://BUCKET/KEY", ExitCode.USAGE)
    return parts.netloc, key


def _client() -> Any:
    try:
        import boto3
    except ImportError as error:
        raise CliError("s3:// needs boto3: pip install 'alcove[s3]'") from error
    return boto3.client("s3")


def _exists(client: Any, bucket: str, key: str) -> bool:
    from botocore.exceptions import ClientError

    try:
        client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return False
        raise
    return True


@contextmanager
def _errors(place: str) -> Iterator[None]:
    """Turns errors of boto3 into CliError."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        yield  # `_client` says what is missing.
        return
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise CliError(f"{place}: {error}") from error
