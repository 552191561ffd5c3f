"""One request in the pipeline, with the results of each step for the steps after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice

from alcove.api.errors import BadRequest
from alcove.api.ids import ALL, Key, Revision, TenantId
from alcove.api.kind import Kind, Scope
from alcove.apiserver.identity import Identity
from alcove.apiserver.metrics import RequestSeries
from alcove.apiserver.negotiate import choose
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.priority.request_flow import RequestFlow
from alcove.apiserver.render import ObjectView
from alcove.http.errors import HttpError
from alcove.http.messages import HttpRequest

WARNINGS_MAX = 100
_TRUE = frozenset({"true", "1", "t", "T", "TRUE", "True"})


class ApiCall:
    """A request. `tenant` and `verb` are set by the pipeline's resolve step, `kind` by its last step."""

    # Until a step sets them, these are values of the class: every request would have to set them otherwise.
    verb = ""
    series: RequestSeries | None = None
    seats = 0
    """Held seats of flow control; 0 before they are acquired and after they are released."""
    flow: RequestFlow | None = None
    """None if the tenant's seats are not divided between its users."""
    level_seats = 0
    """Held seats of the request's priority level."""
    reserved_bytes = 0
    """Bytes that are reserved for the body in the tenant's account; 0 if it is not received separately."""
    revision_at_start = Revision(0)
    """The cache's revision when this attempt began."""
    is_current = False
    """The cache has every write that was acknowledged before the request arrived."""
    is_allowed_by_plane = False
    """The tenant's dedicated API server has allowed the request; this server knows no roles of such a tenant."""
    is_still_allowed: Callable[[], bool] | None = None
    """Called before each event of a watch whose permission can end before the watch; None if it cannot."""

    def __init__(
        self, request: HttpRequest, target: RequestTarget, started: float, request_id: str = ""
    ) -> None:
        self.request = request
        self.target = self._requested_target = target
        self.started = started
        self.request_id = request_id
        """Chosen by the client or generated; it is in the response, the audit log and the log."""
        self.identity: Identity
        self.caller: Identity
        """The authenticated user; differs from `identity` when impersonating."""
        self.tenant: TenantId
        """The requested tenant; `all` for lists and watches over all tenants."""
        self.kind: Kind
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        """For the audit record."""

    def start_over(self) -> None:
        """Clears the results of the steps from authorization on, before they run again."""
        self.target = self._requested_target
        self.warnings.clear()
        self.annotations.clear()
        self.is_still_allowed = None
        self.__dict__.pop("view", None)

    def warn(self, texts: Iterable[str]) -> None:
        """Adds warnings to the response: each text once, even if a write is attempted several times."""
        self.warnings += [text for text in islice(texts, WARNINGS_MAX) if text not in self.warnings]

    @cached_property
    def query(self) -> dict[str, str]:
        """Raises BadRequest."""
        try:
            return self.request.query()
        except HttpError as error:
            raise BadRequest(str(error)) from error

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in _TRUE

    @cached_property
    def view(self) -> ObjectView:
        chosen = choose(self.request.headers.get("accept", ""))
        include = self.query.get("includeObject", "Metadata")
        return ObjectView(self.kind, chosen.form, include, meta_version=chosen.meta_version)

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for kinds that are not namespaced."""
        return self.target.namespace if self.kind.scope is Scope.NAMESPACE else ""

    @property
    def key(self) -> Key:
        kind, target = self.kind, self.target
        namespace = target.namespace if kind.scope is Scope.NAMESPACE else ""
        return Key(kind.storage_resource, self.tenant, namespace, target.name)

    @property
    def list_tenant(self) -> TenantId | None:
        """The tenant to list; None for all tenants."""
        return None if self.tenant == ALL else self.tenant

    @property
    def list_namespace(self) -> str | None:
        """The namespace to list; None for all namespaces."""
        if self.kind.scope is not Scope.NAMESPACE:
            return None
        return self.target.namespace or None

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun", "") == "All"
