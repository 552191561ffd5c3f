"""What handlers work with, wired once by the process."""

from collections.abc import Callable

from msgspec import Struct

from alcove.api.registry import Registry
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.reader import Kinds
from alcove.apiserver.watch import Hub
from alcove.store.base import Store


class Services(Struct, frozen=True):
    store: Store
    cache: Cache
    hub: Hub
    registry: Registry
    kinds: Kinds
    admission: Chain
    clock: Callable[[], float]
    """Epoch seconds."""
    shared: bool = False
    """Other servers write to the store too: a read that names no revision first catches up with them."""
