import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.audit import (
    FIELD_LENGTH_MAX,
    LIST_LENGTH_MAX,
    TENANT_SHARE_OF_BUFFER,
    AuditEntry,
    AuditLog,
    KnownEvent,
)
from alcove.apiserver.audit_files import FILES_MAX, AuditLimits
from alcove.apiserver.identity import Identity

ADMIN = Identity(SYSTEM, "admin", ("system:masters",))
ALICE = Identity(TenantId("acme"), "alice", ("dev",), uid="u-1", extra={"scopes": ("a", "b")})


def entry(**changes: Any) -> AuditEntry:
    given: dict[str, Any] = {
        "received": 1_700_000_000.25,
        "seconds": 0.0015,
        "verb": "get",
        "path": "/api/v1/namespaces/default/pods/web",
        "tenant": TenantId("acme"),
        "caller": ALICE,
        "identity": ALICE,
        "code": 200,
        "audit_id": "id-1",
    }
    return AuditEntry(**given | changes)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def written(folder: Path, *entries: AuditEntry) -> list[dict[str, Any]]:
    log = AuditLog(folder)
    for one in entries:
        log.record(one)
    await log.close()
    return [line for path in files(folder) for line in lines(path)]


async def test_entry_is_a_kubernetes_audit_event(tmp_path: Path) -> None:
    recorded = entry(
        version="v1",
        resource="pods",
        namespace="default",
        name="web",
        source="192.0.2.7",
        user_agent="kubectl/1.32",
        annotations={"authorization.k8s.io/decision": "allow"},
    )
    assert await written(tmp_path, recorded) == [
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": "id-1",
            "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/default/pods/web",
            "verb": "get",
            "tenant": "acme",
            "user": {
                "username": "alice",
                "tenant": "acme",
                "uid": "u-1",
                "groups": ["dev"],
                "extra": {"scopes": ["a", "b"]},
            },
            "sourceIPs": ["192.0.2.7"],
            "userAgent": "kubectl/1.32",
            "objectRef": {
                "tenant": "acme",
                "resource": "pods",
                "namespace": "default",
                "name": "web",
                "apiVersion": "v1",
            },
            "responseStatus": {"code": 200, "metadata": {}},
            "requestReceivedTimestamp": "2023-11-14T22:13:20.250000Z",
            "stageTimestamp": "2023-11-14T22:13:20.251500Z",
            "latencySeconds": 0.0015,
            "annotations": {"authorization.k8s.io/decision": "allow"},
        }
    ]


async def test_impersonation_shows_both(tmp_path: Path) -> None:
    (line,) = await written(tmp_path, entry(caller=ADMIN, identity=ALICE))
    assert (line["user"]["username"], line["impersonatedUser"]["username"]) == ("admin", "alice")
    assert "objectRef" not in line


async def test_failure_says_why(tmp_path: Path) -> None:
    (line,) = await written(tmp_path, entry(code=403, reason="Forbidden"))
    assert line["responseStatus"] == {"code": 403, "metadata": {}, "status": "Failure", "reason": "Forbidden"}


async def test_reads_can_be_left_out_but_not_refused_ones(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, reads=False)
    for verb, code in (("get", 200), ("list", 200), ("get", 403), ("create", 201)):
        log.record(entry(verb=verb, code=code))
    await log.close()
    found = [(line["verb"], line["responseStatus"]["code"]) for line in lines(tmp_path / "acme.log")]
    assert found == [("get", 403), ("create", 201)]


async def test_query_strings_are_not_kept(tmp_path: Path) -> None:
    await written(tmp_path, entry(path="/api/v1/namespaces/n/pods/p/exec?command=login&command=hunter2"))
    assert "hunter2" not in (tmp_path / "acme.log").read_text()


async def test_file_is_for_its_owner_only_and_appended_to(tmp_path: Path) -> None:
    await written(tmp_path, entry())
    assert len(await written(tmp_path, entry())) == 2
    assert [file.stat().st_mode & 0o777 for file in files(tmp_path)] == [0o600]


async def test_lines_are_flushed_in_the_background(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.record(entry())
    async with asyncio.timeout(60):
        while not log._writer.written:  # noqa: ASYNC110, another thread's
            await asyncio.sleep(0.01)
    assert len(lines(tmp_path / "acme.log")) == 1
    await log.close()


async def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    await written(tmp_path, entry(caller=ADMIN))
    for number in range(FILES_MAX + 3):
        log = AuditLog(tmp_path, AuditLimits(tenant_bytes_max=100))
        log.record(entry(name=f"n{number}", resource="pods"))
        await log.close()
    kept = [path.name for path in files(tmp_path)]
    assert sorted(kept) == [*(f"acme.log.{number}" for number in range(1, FILES_MAX)), "system.log"]
    assert lines(tmp_path / "acme.log.1")[0]["objectRef"]["name"] == f"n{FILES_MAX + 2}"


async def test_full_buffer_drops_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path, AuditLimits(buffer_bytes_max=20_000))
    handed: list[dict[TenantId, bytearray]] = []
    with monkeypatch.context() as patch:
        patch.setattr(log._writer, "lines", type("Stuck", (), {"put": staticmethod(handed.append)}))
        for _ in range(1_000):
            log.record(entry())
            log._flush()
        log.record(entry(caller=ADMIN))
        log._flush()
    assert log.recorded == 1_001
    assert log.dropped > 900
    own = [batch[ALICE.tenant] for batch in handed if ALICE.tenant in batch]
    assert sum(map(len, own)) < 20_000 // TENANT_SHARE_OF_BUFFER + 1_000
    assert sum(batch.count(b"\n") for batch in own) == 1_000 - log.dropped
    assert handed[-1].keys() == {SYSTEM}
    await log.close()


async def test_disk_that_refuses_is_counted_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "audit"
    log = AuditLog(path)
    log.record(entry())
    log._flush()
    async with asyncio.timeout(60):
        while not log.failed:  # noqa: ASYNC110, another thread's
            await asyncio.sleep(0.01)
    await asyncio.to_thread(path.parent.mkdir)
    log.record(entry())
    await log.close()
    assert len(lines(path / "acme.log")) == 1


async def test_what_a_client_chose_is_cut(tmp_path: Path) -> None:
    long = "x" * 60_000
    mallory = Identity(
        ALICE.tenant, long, (long,) * 1_000, uid=long, extra={long + str(n): (long,) for n in range(99)}
    )
    await written(
        tmp_path,
        entry(
            caller=mallory,
            identity=ALICE,
            path=f"/{long}",
            user_agent=long,
            resource=long,
            name=long,
            namespace=long,
            verb=long,
            annotations={str(n): long for n in range(1_000)},
        ),
    )
    assert (tmp_path / "acme.log").stat().st_size < 4 * LIST_LENGTH_MAX * (FIELD_LENGTH_MAX + 10)


async def test_a_flood_of_many_tenants_leaves_a_quiet_ones_trail(tmp_path: Path) -> None:
    await written(tmp_path, entry(name="early", resource="pods"), entry(caller=ADMIN))
    limits = AuditLimits(tenant_bytes_max=16_000, total_bytes_max=64_000)
    for _ in range(20):
        log = AuditLog(tmp_path, limits)
        for number in range(8):
            for _ in range(8):
                log.record(entry(caller=Identity(TenantId(f"flood-{number}"), "u"), user_agent="x" * 400))
        await log.close()
    kept = files(tmp_path)
    assert sum(path.stat().st_size for path in kept) <= 64_000 + 16_000
    assert lines(tmp_path / "acme.log")[0]["objectRef"]["name"] == "early"
    assert (tmp_path / "system.log").exists()


async def test_a_name_that_is_no_file_name_stays_in_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    for tenant in ("../out", "a/b", ".", "", "x" * 300):
        await written(folder, entry(caller=Identity(TenantId(tenant), "u")))
    assert [path.name for path in files(tmp_path)] == ["audit"]
    assert [path.name for path in files(folder)] == ["_others.log"]


@pytest.mark.parametrize("agent", ["kubectl/v1.37", '100%s " of it', ""])
async def test_a_known_event_is_written_as_the_whole_entry_is(tmp_path: Path, agent: str) -> None:
    path = "/api/v1/namespaces/100%25d/pods/web"
    target = {"version": "v1", "resource": "pods", "namespace": "100%d", "name": "web"}
    whole = entry(path=path, source="192.0.2.7", user_agent=agent, **target)
    known = KnownEvent(entry(path=path, audit_id="another", received=1.0, user_agent="x", **target))
    log = AuditLog(tmp_path)
    log.record(whole)
    log.record_known(known, whole.received, whole.seconds, whole.audit_id, whole.source, whole.user_agent)
    await log.close()
    first, second = (tmp_path / "acme.log").read_text().splitlines()
    assert first == second


async def test_known_reads_are_not_recorded_if_reads_are_not(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, reads=False)
    log.record_known(KnownEvent(entry()), 1.0, 0.1, "id-2", "", "")
    await log.close()
    assert log.recorded == 0
