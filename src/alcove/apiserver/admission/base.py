"""What an admission plugin is given, and what it may do.

Plugins run in the order of the list in `admission/order.py`: first every `admit` (may change
`attributes.obj`), then validation of the kind, then every `validate` (may only refuse, and set what
nobody but the server says: who asked for a certificate, what a quota counts). Refusing is raising an
`ApiError`. A plugin never runs for a kind that its `handles` declines.

Where a webhook changed the object, every `admit` runs once more: what a plugin fills in, it fills in
again on what the webhook added.
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


CEL_REQUEST_MOST = 2_500_000
"""Units of CEL that all policies, their parameters and all match conditions together may spend on one request."""


class CelBudget:
    """What is left to spend on one request, over all expressions that are evaluated for it."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CEL_REQUEST_MOST

    @property
    def is_exhausted(self) -> bool:
        return self.left <= 0


Join = Callable[[WriteOp], AbstractAsyncContextManager[Sequence[WriteOp]]]
"""Given the write's own operation, what else its transaction holds; in force until the write is over."""


class Attributes(Struct, kw_only=True):
    """One write on its way to the store."""

    operation: Operation
    kind: Kind
    """At the version that the write is worked on: the stored one, of a custom resource the request's. `obj` and
    `old` are of it (but when it is deleted: then `old` is as the store has it)."""
    requested: Kind | None = None
    """At the version that the request named; None: the same."""
    tenant: TenantId
    namespace: str
    name: str
    subresource: str = ""
    obj: Object | None
    """The new object, to be changed in place; None for DELETE."""
    old: Object | None = None
    """The stored object; shared, not to be changed. None for CREATE."""
    identity: Identity
    dry_run: bool = False
    options: Object = field(default_factory=dict)
    """The decoded CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    warnings: list[str] = field(default_factory=list)
    """Shown to the client as `Warning` headers."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Added to the audit record."""
    also: list[WriteOp] = field(default_factory=list)
    """Operations that join the write's own transaction. If one's `expected` fails, the whole write
    starts over: admission runs again on fresh objects."""
    join: Join | None = None
    """Operations that join it too, but are worked out at the last moment, because many writes change the
    same key (a quota's usage). If one's `expected` fails, they alone are worked out again."""
    cel_budget: CelBudget = field(default_factory=CelBudget)
    """Shared by all policies and match conditions that look at this write."""
    is_reinvoked: bool = False
    """This is the second run of every `admit`."""
    reinvoke: bool = False
    """Set by a plugin whose change the others must see: every `admit` runs once more."""
    remembered: object = None
    """What the mutating webhooks know in the second run of the first."""

    @property
    def resource(self) -> GroupResource:
        return self.kind.group_resource

    @property
    def requested_resource(self) -> GroupResource:
        """As the client named it, for what it is told."""
        return (self.requested or self.kind).group_resource

    def warn(self, text: str) -> None:
        """Tells the client something, once, however often admission runs."""
        if text not in self.warnings:
            self.warnings.append(text)


class Plugin:
    """Base of admission plugins: does nothing until a method is overridden."""

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        """Whether this plugin wants such writes at all; asked once per kind and operation, then cached."""
        raise NotImplementedError

    async def admit(self, attributes: Attributes) -> None:
        """May change `attributes.obj`."""

    async def validate(self, attributes: Attributes) -> None:
        """May only refuse."""
