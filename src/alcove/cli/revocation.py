"""Revokes client certificates of a tenant's users, by an entry in the Tenant object."""

from __future__ import annotations

import math
import time

from alcove.api import meta, objects
from alcove.api.errors import Conflict
from alcove.api.objects import Object
from alcove.cli.errors import CliError
from alcove.cli.session import CliSession
from alcove.client.resources import TENANTS

ATTEMPTS_MAX = 10
LIFETIME_SECONDS_MAX = 370 * 86_400.0
"""Longer than any client certificate is valid: older entries revoke nothing."""


def revoke(session: CliSession, tenant: str, entry: Object, now: float) -> None:
    """Adds `entry` to the tenant's list and drops entries without effect. Raises ApiError, ConnectionFailed."""
    for _ in range(ATTEMPTS_MAX):
        existing = session.get(TENANTS, tenant)
        listed = objects.get(existing, "spec", "revokedCertificates", default=[])
        change: Object = {
            "metadata": {"resourceVersion": existing["metadata"]["resourceVersion"]},
            "spec": {"revokedCertificates": merged(listed, entry, now)},
        }
        try:
            session.patch(TENANTS, tenant, change)
            return
        except Conflict:
            continue
    raise CliError(f'tenant "{tenant}" keeps being changed by others; try again')


def merged(listed: list[Object], entry: Object, now: float) -> list[Object]:
    """The list with `entry`, which replaces an earlier one of the same user, without those that are too old
    to matter."""
    kept = [each for each in listed if each != entry and not _is_superseded(each, entry, now)]
    return [*kept, entry]


def _is_superseded(listed: Object, entry: Object, now: float) -> bool:
    if "issuedBefore" not in listed:
        return False
    moment = meta.parse_time(listed["issuedBefore"])
    if moment < now - LIFETIME_SECONDS_MAX:
        return True
    same_user = "issuedBefore" in entry and listed.get("user") == entry.get("user")
    return same_user and moment <= meta.parse_time(entry["issuedBefore"])


def next_second() -> float:
    """The next whole second. Certificates have whole seconds, so one that was issued in this second is issued
    before it."""
    return math.floor(time.time()) + 1.0
