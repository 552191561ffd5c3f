"""The caller's identity. Created by authentication, read by the pipeline's later steps."""

from collections.abc import Mapping

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId

ALL_AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


class Identity(Struct, frozen=True):
    """An authenticated caller. The tenant comes from the credential, never from the request."""

    tenant: TenantId
    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_system(self) -> bool:
        return self.tenant == SYSTEM
