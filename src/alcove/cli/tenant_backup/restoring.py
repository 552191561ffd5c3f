"""Restores a tenant's objects from an archive, under the rights of the tenant's administrator.

    verify   the whole archive: its checksum, every object, what exists already; nothing is changed
    restore  object by object, owners before what they own; what is refused is reported, the rest goes on

Ring0 restores as the tenant's user `admin` (by impersonation): an archive, whoever wrote it, can do what that user could, in that
tenant alone. A restore that was interrupted is continued by another one that keeps what exists.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock, local
from typing import IO, BinaryIO

from msgspec import Struct, field

from alcove.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, TenantId
from alcove.api.objects import Object, get
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError
from alcove.cli.tenant_backup import plan
from alcove.cli.tenant_backup.archive import ArchivedObject, ArchiveHeader, ArchiveReader, VolumeChunk
from alcove.cli.tenant_backup.claims import Claim
from alcove.cli.tenant_backup.existing import Existing
from alcove.cli.tenant_backup.saving import names_of, served
from alcove.client import paths
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, Resource

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

WriteVolume = Callable[[Claim], AbstractContextManager[IO[bytes]]]
"""Takes a tar archive, whose files are in the claim's volume when the block ends."""
OpenArchive = Callable[[], AbstractContextManager[BinaryIO]]
"""Opens the archive at its beginning."""


class VerifiedArchive(Struct, frozen=True):
    header: ArchiveHeader
    objects: int
    owners: frozenset[str]
    """The old uids of objects that own others."""
    claims: Mapping[Claim, int] = {}
    """The numbers of the claims whose volumes' files it has."""
    claims_end: int = 0
    """The number of the last claim. What uses claims comes after it."""


class RestoreReport(Struct):
    created: int = 0
    updated: int = 0
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Objects that are not restored, by reason."""
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    """The first FAILURES_SHOWN_MAX of them."""
    volumes: int = 0
    """Whose files were restored."""

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
    claims: dict[Claim, int] = {}
    filled: set[Claim] = set()
    names: frozenset[tuple[str, str]] = frozenset()
    resource: Resource | None = None
    with archive() as stream:
        reader = ArchiveReader(stream)
        for archived in reader.entries():
            if isinstance(archived, VolumeChunk):
                filled.add(archived.claim)
                continue
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
            if resource == PERSISTENT_VOLUME_CLAIMS:
                claims[Claim(archived.namespace, archived.name)] = archived.number
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
    if unknown := filled - claims.keys():
        raise CliError(
            f"the backup is damaged: it has files of a claim that it does not have, {min(unknown)}"
        )
    end = max(claims.values(), default=0)
    kept = {claim: number for claim, number in claims.items() if claim in filled}
    return VerifiedArchive(reader.header, count, frozenset(owners), kept, end)


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


def impersonation(tenant: str) -> dict[str, str]:
    """The headers by which ring0 is the tenant's administrator."""
    return {"Impersonate-Tenant": tenant, "Impersonate-User": ADMIN}


class Restorer:
    """Restores a verified archive to a tenant that exists."""

    def __init__(
        self,
        connect: Callable[[], CliConnection],
        target: str,
        existing: Existing,
        *,
        as_admin: bool,
        write_volume: WriteVolume | None = None,
    ) -> None:
        """`connect` makes a connection for each of some threads. `as_admin`: they are ring0's, and impersonate
        the tenant's administrator. Without `write_volume` files in volumes are not restored."""
        self._write_volume = write_volume
        self._unfilled: set[Claim] = set()
        """Claims whose volumes' files are to be restored, since they are new or overwritten."""
        self._claims: Mapping[Claim, int] = {}
        self._connections = _ThreadConnections(connect)
        self._target = TenantId(target)
        self._existing = existing
        self._headers = impersonation(target) if as_admin else {}
        self._uids: dict[str, str] = {}
        self._owners: frozenset[str] = frozenset()
        self._served: Resource | None = None
        self._lock = Lock()
        """Guards the report; the other attributes are changed by single assignments."""
        self.report = RestoreReport()

    def restore(self, archive: OpenArchive, verified: VerifiedArchive) -> RestoreReport:
        """Raises ConnectionFailed, CliError; what single objects raise is in the report."""
        self._owners = verified.owners
        if verified.claims and self._write_volume is not None:
            self._claims = verified.claims
            waiting = self._restore_volumes(archive, verified, self._write_volume)
            waiting |= self._pass(
                archive, range(verified.claims_end + 1, verified.objects + 1), is_last=False
            )
        else:
            waiting = self._pass(archive, range(1, verified.objects + 1), is_last=False)
        while waiting:
            before, waiting = waiting, self._pass(archive, waiting, is_last=False)
            if waiting == before:
                # Their owners are not restored, or own each other.
                self._pass(archive, waiting, is_last=True)
                break
        return self.report

    def _restore_volumes(
        self, archive: OpenArchive, verified: VerifiedArchive, write_volume: WriteVolume
    ) -> set[int]:
        """Restores what comes before those that use claims, and then the files. Returns as `_pass`."""
        waiting = self._pass(archive, range(1, verified.claims_end + 1), is_last=False)
        # A claim whose owner comes later, such as a StatefulSet, which would use it.
        early = waiting & {*verified.claims.values()}
        self._pass(archive, early, is_last=True)
        with archive() as stream:
            chunks = (each for each in ArchiveReader(stream).entries() if isinstance(each, VolumeChunk))
            for claim, parts in itertools.groupby(chunks, key=lambda each: each.claim):
                if claim in self._unfilled:
                    with write_volume(claim) as out:
                        for part in parts:
                            out.write(part.data)
                    self._mark_filled(claim)
                    self.report.volumes += 1
        return waiting - early

    def _mark_filled(self, claim: Claim) -> None:
        path = paths.one(self._target, PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name)
        for attempt in range(ATTEMPTS_MAX):
            found = self._request("GET", path)
            found["metadata"].get("annotations", {}).pop(plan.UNFILLED_ANNOTATION, None)
            try:
                self._request("PUT", path, found)
                return
            except Conflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise

    def _pass(self, archive: OpenArchive, wanted: Collection[int], *, is_last: bool) -> set[int]:
        """Restores the `wanted` objects, by their numbers. Returns those whose owners are not restored yet."""
        waiting: set[int] = set()
        requests: deque[Future[None]] = deque()
        resource: Resource | None = None
        with archive() as stream, ThreadPoolExecutor(AT_ONCE_MAX) as threads:
            for archived in ArchiveReader(stream).objects():
                if archived.number not in wanted:
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
        claim = Claim(archived.namespace, archived.name)
        has_files = archived.resource == PERSISTENT_VOLUME_CLAIMS and claim in self._claims
        if has_files:
            plan.mark_unfilled(new)
        collection = paths.collection(self._target, archived.resource, archived.namespace)
        try:
            created = self._request("POST", collection, new)
        except AlreadyExists:
            return self._put_existing(archived, new, has_files=has_files)
        with self._lock:
            self.report.created += 1
            if has_files:
                self._unfilled.add(claim)
        return str(created["metadata"]["uid"])

    def _put_existing(self, archived: ArchivedObject, new: Object, *, has_files: bool) -> str:
        path = paths.one(self._target, archived.resource, archived.namespace, archived.name)
        existing = self._request("GET", path)
        if has_files and (self._existing is Existing.OVERWRITE or plan.is_unfilled(existing)):
            with self._lock:
                self._unfilled.add(Claim(archived.namespace, archived.name))
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
