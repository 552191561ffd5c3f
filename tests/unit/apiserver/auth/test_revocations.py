"""Which certificates a Tenant's list of revoked certificates names, and when open connections are closed."""

import orjson
import pytest

from alcove.api import meta
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import TENANTS
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.auth.revocations import RevocationList, Revocations, RevokedConnections
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType

NOW = 1_800_000_000.0
SERIAL = 0x0A0BFF


def identity(user: str = "ann", issued: float = NOW - 10, serial: int = SERIAL) -> CertificateIdentity:
    return CertificateIdentity(TenantId("acme"), user, (), issued=issued, expires=NOW + 100, serial=serial)


def tenant(*entries: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Tenant",
        "metadata": {"name": "acme"},
        "spec": {"revokedCertificates": list(entries)},
    }


BEFORE_NOW = {"issuedBefore": meta.format_time(NOW)}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], False),
        ([BEFORE_NOW], True),
        ([{**BEFORE_NOW, "user": "ann"}], True),
        ([{**BEFORE_NOW, "user": "bob"}], False),
        ([{"issuedBefore": meta.format_time(NOW - 10)}], False),
        ([{"issuedBefore": meta.format_time(NOW - 9)}], True),
        ([{**BEFORE_NOW, "user": "ann"}, {"issuedBefore": meta.format_time(NOW - 99), "user": "ann"}], True),
        ([{"serialNumber": "A0BFF"}], True),
        ([{"serialNumber": "0a:0b:ff"}], True),
        ([{"serialNumber": "A0BFE"}], False),
    ],
)
def test_what_an_entry_revokes(entries: list[Object], expected: bool) -> None:
    assert RevocationList.of(entries).has(identity()) is expected
    assert Revocations().has(tenant(*entries), identity()) is expected


def test_a_changed_list_is_read_again() -> None:
    revocations = Revocations()
    assert not revocations.has(tenant({**BEFORE_NOW, "user": "bob"}), identity())
    assert revocations.has(tenant(BEFORE_NOW), identity())
    assert not revocations.has(tenant(), identity())


def test_connections_are_closed_when_a_list_changes_and_not_at_other_changes() -> None:
    class Server:
        closed = 0

        def close_peers(self, selects: object) -> int:
            self.closed += 1
            return 0

    def event(new: Object, old: Object | None) -> CacheEvent:
        key = Key(TENANTS, SYSTEM, "", "acme")
        entries = [
            None if each is None else CacheEntry(key, Revision(1), orjson.dumps(each)) for each in (new, old)
        ]
        assert entries[0] is not None
        return CacheEvent(CacheEventType.MODIFIED, entries[0], entries[1])

    server, connections = Server(), RevokedConnections()
    connections.notice([event(tenant(BEFORE_NOW), tenant())])
    connections.serve(server, lambda _identity: True)
    connections.notice([event(tenant(BEFORE_NOW), {**tenant(BEFORE_NOW), "status": {"phase": "Active"}})])
    assert server.closed == 0
    connections.notice([event(tenant(BEFORE_NOW), tenant()), event(tenant(), None)])
    assert server.closed == 1
