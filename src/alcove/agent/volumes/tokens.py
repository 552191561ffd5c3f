"""Service account tokens in volumes: bound to one pod, renewed long before they expire."""

from msgspec import Struct

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api import meta, objects
from alcove.api.objects import Object

SECONDS_DEFAULT = 3600
AGE_SECONDS_MAX = 24 * 3600
LIFETIME_FRACTION = 0.8
"""The fraction of a token's lifetime after which it is renewed."""


class ServiceAccountToken(Struct, frozen=True):
    token: str
    audience: str
    made_at: float
    renew_at: float

    def is_good(self, audience: str, now: float) -> bool:
        # If `made_at` is in the future the clock was set back, and `renew_at` is meaningless.
        return self.audience == audience and self.made_at - 60 <= now < self.renew_at


async def renewed(
    lookup: ObjectLookup,
    key: PodKey,
    pod: Object,
    source: Object,
    cached: ServiceAccountToken | None,
    now: float,
) -> ServiceAccountToken:
    """The token for a volume's `serviceAccountToken`: the cached one while it is valid. Raises
    VolumeFailure."""
    audience = source.get("audience") or ""
    if cached is not None and cached.is_good(audience, now):
        return cached
    seconds = source.get("expirationSeconds") or SECONDS_DEFAULT
    account = objects.get(pod, "spec", "serviceAccountName", default="default")
    token_request = await lookup.token(key, account, [audience] if audience else [], seconds)
    if token_request is None:
        raise VolumeFailure(f"failed to fetch token: no token for service account {account}")
    status = token_request.get("status") or {}
    expires_at = meta.parse_time(status["expirationTimestamp"])
    seconds_until_renewal = min((expires_at - now) * LIFETIME_FRACTION, AGE_SECONDS_MAX)
    return ServiceAccountToken(status["token"], audience, now, now + seconds_until_renewal)
