"""Restores a tenant's objects from an archive, under the rights of the tenant's administrator.

    verify   the whole archive: its checksum, every object, what exists already; nothing is changed
    restore  object by object, owners before what they own; what is refused is reported, the rest goes on

Ring0 restores as the tenant's user `admin` (by impersonation): an archive, whoever wrote it, can do what that user could, in that
tenant alone. A restore that was interrupted is continued by another one that keeps what exists.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock, local
from typing import BinaryIO

from msgspec import Struct, field

from alcove.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, TenantId
from alcove.api.objects import Object, get
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError
from alcove.cli.tenant_backup import plan
from alcove.cli.tenant_backup.archive import ArchivedObject, ArchiveHeader, ArchiveReader
from alcove.cli.tenant_backup.existing import Existing
from alcove.cli.tenant_backup.saving import names_of, served
from alcove.client import paths
from alcove.client.resources import Resource

ADMIN = "admin"
FAILURES_SHOWN_MAX = 20
AT_ONCE_MAX = 8
"""Objects of one resource that are restored at the same time."""
ATTEMPTS_MAX = 8
RETRY_SECONDS = 0.25
SERVED_SECONDS_MAX = 60.0
"""How long to wait until the kind of a restored CRD is served."""
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_RETRIED_CODES = (429, 500, 503, 504)
_INITIAL = frozenset(
    {
        *(("namespaces", name) for name in DEFAULT_NAMESPACES),
        ("clusterroles", "admin-role"),
        ("clusterrolebindings", "admin-role-binding"),
        ("networks", "default"),
        ("storageclasses", "local"),
        ("serviceaccounts", "default"),
    }
)
"""Objects that every tenant begins with, as resource and name."""

OpenArchive = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the archive at its beginning."""


class VerifiedArchive(Struct, frozen=True):
    header: ArchiveHeader
    objects: int
    owners: frozenset[str]
    """The old uids of objects that own others."""


class RestoreReport(Struct):
    created: int = 0
    updated: int = 0
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Objects that are not restored, by reason."""
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    """The first FAILURES_SHOWN_MAX of them."""

    def fail(self, archived: ArchivedObject, error: Exception) -> None:
        self.failed += 1
        if len(self.failures) < FAILURES_SHOWN_MAX:
            self.failures.append(f"{archived}: {error}")


def verify(
    archive: OpenArchive, connection: CliConnection, target: str | None, existing: Existing
) -> VerifiedArchive:
    """Reads the whole archive. `target` is the tenant that it is restored to, None if that does not exist yet.

    Raises CliError for an archive that cannot be restored, or if objects exist and `existing` is REFUSE.
    """
    known = _known(connection, target)
    defined: set[tuple[str, str]] = set()
    owners: set[str] = set()
    conflicts, count = Counter[str](), 0
    names: frozenset[tuple[str, str]] = frozenset()
    resource: Resource | None = None
    with archive() as stream:
        reader = ArchiveReader(stream)
        for archived in reader.objects():
            count += 1
            if archived.resource != resource:
                resource = archived.resource
                _check_served(resource, known, defined)
                names = (
                    _existing(connection, target, resource, known)
                    if existing is Existing.REFUSE
                    else frozenset()
                )
            if not _check(archived, target or reader.header.tenant):
                continue
            owners.update(plan.owners(archived.obj))
            if names_of(resource) == CRDS:
                defined.add(
                    (
                        str(get(archived.obj, "spec", "group")),
                        str(get(archived.obj, "spec", "names", "plural")),
                    )
                )
            if (archived.namespace, archived.name) in names and not _is_initial(archived):
                conflicts[str(resource)] += 1
    if conflicts:
        shown = ", ".join(f"{number} {name}" for name, number in sorted(conflicts.items()))
        raise CliError(f"tenant {target} has objects of the backup already: {shown}; see --existing")
    return VerifiedArchive(reader.header, count, frozenset(owners))


def _known(connection: CliConnection, target: str | None) -> frozenset[tuple[str, str]]:
    """The resources that the target serves; a tenant that does not exist yet is served what ring0 is, and less."""
    resources = [each for each in served(connection, target or SYSTEM) if plan.is_saved(each)]
    return frozenset(names_of(each.resource) for each in resources)


def _check_served(
    resource: Resource, known: frozenset[tuple[str, str]], defined: set[tuple[str, str]]
) -> None:
    if names_of(resource) not in known and names_of(resource) not in defined:
        raise CliError(f"the backup has {resource}, which this cluster does not serve to the tenant")


def _existing(
    connection: CliConnection, target: str | None, resource: Resource, known: frozenset[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    if target is None or names_of(resource) not in known:
        return frozenset()
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    path = paths.collection(TenantId(target), resource)
    items = connection.request("GET", path, headers={"Accept": accept})["items"]
    return frozenset((each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in items)


def _check(archived: ArchivedObject, target: str) -> bool:
    """Whether the object will be restored. Raises CliError if it has not the shape of its kind."""
    try:
        if plan.skipped(archived):
            return False
        plan.restored(archived, target, dict.fromkeys(plan.owners(archived.obj), ""))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CliError(f"the backup is damaged: {archived} is malformed") from error
    return True


def _is_initial(archived: ArchivedObject) -> bool:
    return (archived.resource.resource, archived.name) in _INITIAL


class Restorer:
    """Restores a verified archive to a tenant that exists."""

    def __init__(
        self, connect: Callable[[], CliConnection], target: str, existing: Existing, *, as_admin: bool
    ) -> None:
        """`connect` makes a connection for each of some threads. `as_admin`: they are ring0's, and impersonate
        the tenant's administrator."""
        self._connections = _ThreadConnections(connect)
        self._target = TenantId(target)
        self._existing = existing
        self._headers = {"Impersonate-Tenant": target, "Impersonate-User": ADMIN} if as_admin else {}
        self._uids: dict[str, str] = {}
        self._owners: frozenset[str] = frozenset()
        self._served: Resource | None = None
        self._lock = Lock()
        """Guards the report; the other attributes are changed by single assignments."""
        self.report = RestoreReport()

    def restore(self, archive: OpenArchive, verified: VerifiedArchive) -> RestoreReport:
        """Raises ConnectionFailed, CliError; what single objects raise is in the report."""
        self._owners = verified.owners
        waiting = self._pass(archive, None, is_last=False)
        while waiting:
            before, waiting = waiting, self._pass(archive, waiting, is_last=False)
            if waiting == before:
                # Their owners are not restored, or own each other.
                self._pass(archive, waiting, is_last=True)
                break
        return self.report

    def _pass(self, archive: OpenArchive, wanted: set[int] | None, *, is_last: bool) -> set[int]:
        """Restores all objects, or the `wanted` ones. Returns those whose owners are not restored yet."""
        waiting: set[int] = set()
        requests: deque[Future[None]] = deque()
        resource: Resource | None = None
        with archive() as stream, ThreadPoolExecutor(AT_ONCE_MAX) as threads:
            for archived in ArchiveReader(stream).objects():
                if wanted is not None and archived.number not in wanted:
                    continue
                if archived.resource != resource:
                    # What comes later may need, or be owned by, all of what came before.
                    _finish(requests, 0)
                    resource = archived.resource
                if reason := plan.skipped(archived):
                    self.report.skipped[reason] += 1
                elif is_last or all(uid in self._uids for uid in plan.owners(archived.obj)):
                    _finish(requests, 2 * AT_ONCE_MAX)
                    requests.append(threads.submit(self._restore, archived))
                else:
                    waiting.add(archived.number)
            _finish(requests, 0)
        return waiting

    def _restore(self, archived: ArchivedObject) -> None:
        try:
            self._wait_until_served(archived.resource)
            uid = self._put(archived)
        except ApiError as error:
            with self._lock:
                self.report.fail(archived, error)
            return
        old = archived.obj["metadata"].get("uid")
        if old in self._owners:
            self._uids[old] = uid

    def _put(self, archived: ArchivedObject) -> str:
        """Creates the object, or treats the existing one as requested. Returns its uid."""
        new = plan.restored(archived, self._target, self._uids)
        collection = paths.collection(self._target, archived.resource, archived.namespace)
        try:
            created = self._request("POST", collection, new)
        except AlreadyExists:
            return self._put_existing(archived, new)
        with self._lock:
            self.report.created += 1
        return str(created["metadata"]["uid"])

    def _put_existing(self, archived: ArchivedObject, new: Object) -> str:
        path = paths.one(self._target, archived.resource, archived.namespace, archived.name)
        existing = self._request("GET", path)
        if self._existing is not Existing.OVERWRITE or archived.resource.kind == "Pod":
            with self._lock:
                self.report.kept += 1
            return str(existing["metadata"]["uid"])
        for attempt in range(ATTEMPTS_MAX):
            try:
                self._request("PUT", path, plan.overwritten(new, existing, archived.resource))
                break
            except Conflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                existing = self._request("GET", path)
        with self._lock:
            self.report.updated += 1
        return str(existing["metadata"]["uid"])

    def _wait_until_served(self, resource: Resource) -> None:
        """A CRD that was restored is served a moment later."""
        if resource == self._served:
            return
        deadline = time.monotonic() + SERVED_SECONDS_MAX
        path = paths.with_query(paths.collection(self._target, resource), {"limit": "1"})
        while True:
            try:
                self._request("GET", path)
                break
            except NotFound:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)
        self._served = resource

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        for pause in _pauses():
            try:
                answer: Object = self._connections.own.request(method, path, body, self._headers)
                return answer
            except ApiError as error:
                if error.code not in _RETRIED_CODES or pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last pause is None")


class _ThreadConnections(local):
    """A connection for each thread."""

    def __init__(self, connect: Callable[[], CliConnection]) -> None:
        self.own = connect()


def _finish(requests: deque[Future[None]], most: int) -> None:
    """Waits until at most so many requests are left. Raises what they raised."""
    while len(requests) > most:
        requests.popleft().result()


def _pauses() -> Iterator[float | None]:
    for attempt in range(ATTEMPTS_MAX):
        yield RETRY_SECONDS * 2**attempt
    yield None
