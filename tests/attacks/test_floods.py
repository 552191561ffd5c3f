"""Floods of one tenant, by its clients and from its pod: another tenant's reads and DNS answers stay as they were."""

from __future__ import annotations

import pytest

from alcove.testing.attacks import AttackedCluster
from alcove.testing.cluster import lacking
from alcove.testing.quiet import READ
from alcove.testing.server import Caller

# Watches the clock.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

SECONDS = 4.0
CONNECTIONS = ["connection_flood", "anonymous_connections", "handshake_flood", "slow_bodies"]


def flood(name: str, *kinds: str) -> object:
    return pytest.param(list(kinds), id=name)


FLOODS = [
    flood("pipelined requests", "pipelining"),
    flood("bodies in chunks of one byte", "tiny_chunks"),
    flood("watches", "watch_flood"),
    flood("lists, events and large objects", "list_flood", "events_flood", "large_objects"),
    flood("patches", "large_patches"),
    flood("policies", "costly_policies"),
    flood("services and a webhook that never answers", "service_churn", "tarpit_webhook"),
    flood("DNS", "dns_flood"),
]


@pytest.mark.parametrize("kinds", FLOODS)
def test_another_tenant_is_served_during_a_flood(arena: AttackedCluster, kinds: list[str]) -> None:
    with arena.unharmed():
        figures = arena.measure_during(kinds, SECONDS)
    figures.check()


def test_clients_old_and_new_are_served_during_a_flood_of_connections(arena: AttackedCluster) -> None:
    with arena.unharmed():
        figures = arena.measure_during(CONNECTIONS, SECONDS)
        newcomer = Caller(arena.quiet.caller.kubeconfig)
        assert newcomer.get(READ).status == 200
        newcomer.close()
    assert figures.outcomes["connection_flood opened"] >= 100
    figures.check()
