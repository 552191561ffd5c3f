"""Saves a tenant's objects as they were at one revision."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

import msgspec
import orjson
from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import Expired
from alcove.api.ids import TenantId
from alcove.api.objects import get
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError
from alcove.cli.tenant_backup.archive import (
    VERSION,
    VERSION_WITH_VOLUMES,
    ArchiveHeader,
    ArchiveWriter,
)
from alcove.cli.tenant_backup.claims import Claim
from alcove.cli.tenant_backup.plan import in_restore_order, is_saved
from alcove.client import discovery, paths
from alcove.client.discovery import ServedResource
from alcove.client.resources import API_SERVICES, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, Resource

PAGE_BYTES = 4 << 20
"""Pages are about as large, however large the objects are."""
PAGE_OBJECTS, PAGE_OBJECTS_MAX = 100, 5000


class SavedBackup(Struct, frozen=True):
    objects: int
    revision: str
    size_bytes: int
    volumes: int = 0


class _PageMetadata(
    Struct, frozen=True, rename={"resource_version": "resourceVersion", "continue_": "continue"}
):
    resource_version: str = ""
    continue_: str = ""


class _Page(Struct, frozen=True):
    metadata: _PageMetadata
    items: list[msgspec.Raw]


_PAGES = msgspec.json.Decoder(_Page)


def names_of(resource: Resource) -> tuple[str, str]:
    """What names the resource in any version."""
    return resource.group, resource.resource


def served(connection: CliConnection, tenant: str) -> list[ServedResource]:
    """The resources of the tenant's own objects: those of extension servers are not."""
    documents = [
        connection.request("GET", f"/tenants/{tenant}{path}", headers={"Accept": discovery.ACCEPT})
        for path in discovery.PATHS
    ]
    services = connection.request("GET", paths.collection(TenantId(tenant), API_SERVICES))["items"]
    elsewhere = {each["spec"].get("group", "") for each in services if each["spec"].get("service")}
    return [each for each in discovery.parsed(documents) if each.resource.group not in elsewhere]


ReadVolume = Callable[[Claim], Iterator[bytes]]
"""The files of the claim's volume, as a tar archive in chunks."""


def save(
    connection: CliConnection,
    tenant: str,
    out: BinaryIO,
    size_max: int = 0,
    read_volume: ReadVolume | None = None,
) -> SavedBackup:
    """Writes an archive, of at most `size_max` bytes if that is not 0, with the files of volumes if `read_volume` is
    given. Raises ApiError, ConnectionFailed, CliError, OSError."""
    resources = [each.resource for each in served(connection, tenant) if is_saved(each)]
    revision = _page(connection, tenant, NAMESPACES, {"limit": "1"}).metadata.resource_version
    version = VERSION if read_volume is None else VERSION_WITH_VOLUMES
    header = ArchiveHeader(tenant, revision, meta.format_time(time.time()), version=version)
    writer, claims = ArchiveWriter(out, header, size_max), list[Claim]()
    with ThreadPoolExecutor(1) as fetcher:
        for resource in in_restore_order(resources):
            try:
                for items in _pages(fetcher, connection, tenant, resource, revision):
                    writer.add(resource, items)
                    if resource == PERSISTENT_VOLUME_CLAIMS:
                        claims += _bound(items)
            except Expired as error:
                message = f"the API server no longer has revision {revision}, with which the backup began"
                raise CliError(f"{message}; try again") from error
    if read_volume is None:
        claims = []
    for claim in claims:
        writer.begin_volume(claim)
        for chunk in read_volume(claim) if read_volume is not None else ():
            writer.add_chunk(chunk)
    writer.end()
    return SavedBackup(writer.objects, revision, writer.size_bytes, len(claims))


def _bound(items: list[bytes]) -> Iterator[Claim]:
    """The claims that have a volume with files."""
    for claim in map(orjson.loads, items):
        is_bound = get(claim, "status", "phase") == "Bound"
        has_files = get(claim, "spec", "volumeMode", default="Filesystem") == "Filesystem"
        if is_bound and has_files and "deletionTimestamp" not in claim["metadata"]:
            yield Claim(claim["metadata"]["namespace"], claim["metadata"]["name"])


def _pages(
    fetcher: ThreadPoolExecutor, connection: CliConnection, tenant: str, resource: Resource, revision: str
) -> Iterator[list[bytes]]:
    """The encoded objects, page by page. While one page is used, `fetcher` receives the next."""

    def fetch(limit: int, **query: str) -> Future[_Page]:
        return fetcher.submit(_page, connection, tenant, resource, {**query, "limit": str(limit)})

    limit = PAGE_OBJECTS
    fetched = fetch(limit, resourceVersion=revision, resourceVersionMatch="Exact")
    while True:
        page = fetched.result()
        items = [bytes(item) for item in page.items]
        if not page.metadata.continue_:
            yield items
            return
        limit = _next_limit(limit, sum(map(len, items)))
        fetched = fetch(limit, **{"continue": page.metadata.continue_})
        yield items


def _next_limit(limit: int, size_bytes: int) -> int:
    return max(1, min(limit * PAGE_BYTES // max(size_bytes, 1), 4 * limit, PAGE_OBJECTS_MAX))


def _page(connection: CliConnection, tenant: str, resource: Resource, query: dict[str, str]) -> _Page:
    path = paths.with_query(paths.collection(TenantId(tenant), resource), query)
    try:
        return _PAGES.decode(connection.content(path))
    except msgspec.MsgspecError as error:
        raise CliError(f"{path} did not answer with a list: {error}") from error
