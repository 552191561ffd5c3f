"""Options of a request, from its query string or its body, validated as in Kubernetes."""

from __future__ import annotations

from msgspec import Struct

from alcove.api import selectors, tenant_shards
from alcove.api.errors import BadRequest, Invalid
from alcove.api.fields import FieldError, forbidden, invalid, not_supported
from alcove.api.ids import Revision
from alcove.api.objects import Object
from alcove.api.selectors import FieldSelector, LabelSelector
from alcove.api.tenant_shards import TenantShard
from alcove.apiserver.call import ApiCall

_PROPAGATION = ("Foreground", "Background", "Orphan")


class ListOptions(Struct, frozen=True):
    labels: LabelSelector
    fields: FieldSelector
    limit: int
    continue_: str
    revision: Revision | None
    """None if the client set none."""
    match: str
    timeout_seconds: int | None
    bookmarks: bool
    initial_events: bool | None
    shard: TenantShard | None
    """For a list or watch of all tenants: only objects of the tenants of a shard."""


def list_options(call: ApiCall) -> ListOptions:
    query = call.query
    options = ListOptions(
        labels=selectors.parse(query.get("labelSelector", "")),
        fields=selectors.parse_fields(query.get("fieldSelector", "")),
        limit=_number(query, "limit") or 0,
        continue_=query.get("continue", ""),
        revision=revision(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        timeout_seconds=_number(query, "timeoutSeconds"),
        bookmarks=call.flag("allowWatchBookmarks"),
        initial_events=call.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        shard=_shard(call),
    )
    errors = _list_errors(options, call.verb == "watch")
    if errors:
        raise Invalid.of("meta.k8s.io", "ListOptions", "", errors)
    return options


def _shard(call: ApiCall) -> TenantShard | None:
    text = call.query.get("tenantShard")
    if not text:
        return None
    if call.list_tenant is not None:
        raise BadRequest("tenantShard is only for lists and watches of all tenants")
    try:
        return tenant_shards.parse(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _list_errors(options: ListOptions, watching: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    match = options.match
    if options.initial_events is not None and not watching:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if watching and match and options.initial_events is None:
        message = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden("resourceVersionMatch", message))
    if watching and options.initial_events is not None and match != "NotOlderThan":
        message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden("resourceVersionMatch", message))
    if match and not watching:
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        if options.revision is None:
            message = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(forbidden("resourceVersionMatch", message))
        if options.continue_:
            message = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden("resourceVersionMatch", message))
        if match == "Exact" and options.revision == 0:
            message = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden("resourceVersionMatch", message))
    if options.limit < 0:
        errors.append(invalid("limit", options.limit, "must be greater than or equal to 0"))
    return errors


def revision(text: str) -> Revision | None:
    """A resourceVersion parameter; None if it is not given. Raises BadRequest."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise BadRequest(
            f'invalid resource version "{text}": give a resourceVersion that the server returned, or none'
        )
    return Revision(int(text))


def _number(query: dict[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise BadRequest(f'{name} must be a whole number, not "{text}"') from error


class DeleteOptions(Struct, frozen=True):
    grace_seconds: int | None = None
    propagation: str = ""
    """Foreground, Background or Orphan; empty for the kind's default."""
    uid: str = ""
    revision: str = ""
    dry_run: bool = False
    raw: Object = {}


def delete_options(call: ApiCall, body: Object) -> DeleteOptions:
    """The options in the body, with those of the query string where the body has none."""
    query = call.query
    values = {**body}
    if "gracePeriodSeconds" not in values and "gracePeriodSeconds" in query:
        values["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds")
    if "propagationPolicy" not in values and "propagationPolicy" in query:
        values["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" not in values and "orphanDependents" in query:
        values["orphanDependents"] = call.flag("orphanDependents")
    errors: list[FieldError] = []
    policy = values.get("propagationPolicy") or ""
    if policy and policy not in _PROPAGATION:
        errors.append(not_supported("propagationPolicy", policy, (*_PROPAGATION, "nil")))
    if policy and values.get("orphanDependents") is not None:
        message = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, message))
    if errors:
        raise Invalid.of("meta.k8s.io", "DeleteOptions", "", errors)
    if values.get("orphanDependents") is not None:
        policy = "Orphan" if values["orphanDependents"] else "Background"
    preconditions = values.get("preconditions") or {}
    return DeleteOptions(
        grace_seconds=values.get("gracePeriodSeconds"),
        propagation=policy,
        uid=preconditions.get("uid") or "",
        revision=preconditions.get("resourceVersion") or "",
        dry_run=call.dry_run or values.get("dryRun") == ["All"],
        raw=values,
    )


def check_dry_run(call: ApiCall) -> None:
    value = call.query.get("dryRun", "")
    if value not in ("", "All"):
        error = not_supported("dryRun", value, ("All",))
        raise Invalid.of("meta.k8s.io", "CreateOptions", "", [error])


def field_validation(call: ApiCall) -> str:
    """Strict, Warn or Ignore."""
    mode = call.query.get("fieldValidation", "")
    if mode not in ("", "Strict", "Warn", "Ignore"):
        error = not_supported("fieldValidation", mode, ("Ignore", "Strict", "Warn"))
        raise Invalid.of("meta.k8s.io", "CreateOptions", "", [error])
    return mode or "Warn"
