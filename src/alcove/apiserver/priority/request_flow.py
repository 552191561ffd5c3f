"""Where a request was put: its flow schema and its priority level."""

from __future__ import annotations

from msgspec import Struct

from alcove.apiserver.priority.flowschemas import FlowSchema
from alcove.apiserver.priority.levels import LevelSeats, PriorityLevel


class RequestFlow(Struct, frozen=True):
    schema: FlowSchema
    level: PriorityLevel
    _seats: LevelSeats

    def release(self, seats: int) -> None:
        self._seats.release(self.level, seats)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """By these headers Kubernetes' clients are told how a request was classified."""
        return [
            (b"X-Kubernetes-PF-FlowSchema-UID", self.schema.uid.encode()),
            (b"X-Kubernetes-PF-PriorityLevel-UID", self.level.config.uid.encode()),
        ]
