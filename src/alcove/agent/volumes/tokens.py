"""Tokens of service accounts in volumes: made for one pod, renewed long before they end.

What was made is remembered beside the pod's volumes, in memory that ends with them: an agent that starts anew
goes on with the same tokens.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api import meta, objects
from alcove.api.objects import Object

SECONDS_DEFAULT = 3600
AGE_SECONDS_MAX = 24 * 3600
LIFE_USED = 0.8
"""Of a token's life; then it is renewed."""


class ServiceAccountToken(Struct, frozen=True):
    token: str
    audience: str
    made_at: float
    renew_at: float

    def is_good(self, audience: str, now: float) -> bool:
        # Made in the future: the clock was set back, and nothing is known of when it ends.
        return self.audience == audience and self.made_at - 60 <= now < self.renew_at


Tokens = dict[str, ServiceAccountToken]
"""By volume and path."""


async def renewed(
    lookup: ObjectLookup,
    key: PodKey,
    pod: Object,
    source: Object,
    known: ServiceAccountToken | None,
    now: float,
) -> ServiceAccountToken:
    """The token for a volume's `serviceAccountToken`: the known one as long as it is good."""
    audience = source.get("audience") or ""
    if known is not None and known.is_good(audience, now):
        return known
    seconds = source.get("expirationSeconds") or SECONDS_DEFAULT
    account = objects.get(pod, "spec", "serviceAccountName", default="default")
    made = await lookup.token(key, account, [audience] if audience else [], seconds)
    if made is None:
        raise VolumeFailure(f"failed to fetch token: no token for service account {account}")
    status = made.get("status") or {}
    ends_at = meta.parse_time(status["expirationTimestamp"])
    life = min((ends_at - now) * LIFE_USED, AGE_SECONDS_MAX)
    return ServiceAccountToken(status["token"], audience, now, now + life)


def read(path: Path) -> Tokens:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Tokens)
    except (OSError, msgspec.DecodeError):
        return {}


def write(path: Path, tokens: Mapping[str, ServiceAccountToken]) -> None:
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.encode(dict(tokens)))
    draft.rename(path)
