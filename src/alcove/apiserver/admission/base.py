"""The interface of admission plugins.

Plugins run in the order of the list in `admission/order.py`: first every `admit` (may change
`attributes.obj`), then the kind's validation, then every `validate` (may only reject, and set fields that
only the server writes: the requester of a certificate, the usage of a quota, the addresses of a service). A
plugin rejects a write by raising an `ApiError`. A plugin never runs for a kind that its `handles` declines.

If a webhook or policy changed the object, every `admit` runs once more, so that plugins also complete what
was added.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum

from msgspec import Struct, field

from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.identity import Identity
from alcove.store.base import WriteOp


class Operation(Enum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"

    # `Enum` hashes in Python, by name.
    __hash__ = object.__hash__


CEL_REQUEST_MOST = 2_500_000
"""Units of CEL that all policies, their parameters and all match conditions together may spend on one request."""


class CelBudget:
    """The remaining CEL cost budget of one request, shared by all expressions that are evaluated for it."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CEL_REQUEST_MOST

    @property
    def is_exhausted(self) -> bool:
        return self.left <= 0


Join = Callable[[WriteOp], AbstractAsyncContextManager[Sequence[WriteOp]]]
"""Given the write's own operation, yields further operations of its transaction; entered until the write is
done."""


class Attributes(Struct, kw_only=True):
    """One write in admission."""

    operation: Operation
    kind: Kind
    """The kind at the version at which the write is processed: the storage version, for a custom resource the
    request's. `obj` and `old` are of this version (except for DELETE: then `old` is as stored)."""
    requested: Kind | None = None
    """The kind at the version of the request; None if it is the same."""
    tenant: TenantId
    namespace: str
    name: str
    subresource: str = ""
    obj: Object | None
    """The new object, to be changed in place; None for DELETE."""
    old: Object | None = None
    """The stored object; shared, must not be changed. None for CREATE."""
    identity: Identity
    dry_run: bool = False
    options: Object = field(default_factory=dict)
    """The decoded CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    warnings: list[str] = field(default_factory=list)
    """Shown to the client as `Warning` headers."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Added to the audit record."""
    also: list[WriteOp] = field(default_factory=list)
    """Further operations of the write's transaction. If one's `expected` fails, the whole write is retried:
    admission runs again on fresh objects."""
    joins: list[Join] = field(default_factory=list)
    """Further operations that are computed at the last moment, because many writes change the same key (a
    quota's usage). If one's `expected` fails, only they are computed again."""
    on_removal: list[WriteOp] = field(default_factory=list)
    """Further operations of the transaction if the write removes the object: what it held is released."""
    undo: list[Callable[[], None]] = field(default_factory=list)
    """Takes back what `validate` has set in the object, before it is called for another attempt."""
    cel_budget: CelBudget = field(default_factory=CelBudget)
    """Shared by all policies and match conditions that are evaluated for this write."""
    is_reinvoked: bool = False
    """Whether this is the second run of every `admit`."""
    reinvoke: bool = False
    """Set by a plugin whose change the others must see: every `admit` runs once more."""
    remembered: object = None
    """State that the mutating webhooks keep from the first run for the second."""

    def begin_attempt(self) -> None:
        """Forget what `validate` has prepared for the last attempt to write the object."""
        while self.undo:
            self.undo.pop()()
        self.also.clear()
        self.joins.clear()
        self.on_removal.clear()

    @property
    def resource(self) -> GroupResource:
        return self.kind.group_resource

    @property
    def requested_resource(self) -> GroupResource:
        """The resource as the client named it, for messages."""
        return (self.requested or self.kind).group_resource

    def warn(self, text: str) -> None:
        """Add a warning for the client, once, however often admission runs."""
        if text not in self.warnings:
            self.warnings.append(text)


class Plugin:
    """Base of admission plugins: does nothing until a method is overridden."""

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        """Whether this plugin handles such writes; called once per kind and operation, then cached."""
        raise NotImplementedError

    async def admit(self, attributes: Attributes) -> None:
        """May change `attributes.obj`."""

    async def validate(self, attributes: Attributes) -> None:
        """May only reject."""
