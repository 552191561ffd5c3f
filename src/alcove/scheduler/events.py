"""Input of the core: a tenant's object on a plane was changed or deleted."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import PlaneId


class ObjectKind(Enum):
    POD = "pods"
    NODE = "nodes"
    CLAIM = "persistentvolumeclaims"
    VOLUME = "persistentvolumes"
    STORAGE_CLASS = "storageclasses"
    BUDGET = "poddisruptionbudgets"
    NAMESPACE = "namespaces"
    RUNTIME_CLASS = "runtimeclasses"
    TENANT = "tenants"
    NOTE = "notes"
    """Escrow records of nodes."""


class SchedulerEvent(Struct):
    plane: PlaneId
    tenant: TenantId
    kind: ObjectKind
    obj: Object
    is_gone: bool = False
