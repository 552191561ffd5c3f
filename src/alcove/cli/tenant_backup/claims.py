"""Which claim a volume in a backup is of."""

from msgspec import Struct


class Claim(Struct, frozen=True, order=True):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
