"""What a request needs to be allowed to do, as the authorizer is asked."""

from __future__ import annotations

from alcove.api.errors import NotAcceptable
from alcove.apiserver.call import ApiCall
from alcove.apiserver.negotiate import ResponseForm, negotiate
from alcove.apiserver.rbac.authorize import Access

_COLLECTION_READS = frozenset({"list", "watch", "deletecollection"})


def access_of(call: ApiCall) -> Access:
    target = call.target
    if not target.is_resource:
        return Access(call.verb, call.tenant, path=target.path)
    name, fields, labels = target.name, "", ""
    if call.verb in _COLLECTION_READS and call.request.raw_query:
        fields, labels = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        name = name or _selected_name(fields)
    return Access(
        call.verb,
        call.tenant,
        target.group,
        target.resource,
        target.subresource,
        target.namespace,
        name,
        fields=fields,
        labels=labels,
        metadata_only=call.verb in _COLLECTION_READS and _is_metadata(call),
    )


def _is_metadata(call: ApiCall) -> bool:
    try:
        return negotiate(call.request.headers.get("accept", "")) is ResponseForm.METADATA
    except NotAcceptable:
        return False  # The step that answers raises it again.


def _selected_name(fields: str) -> str:
    """The one name that a field selector selects: a role with resourceNames also allows to list and watch by
    it."""
    if not fields.startswith("metadata.name="):
        return ""
    name = fields.removeprefix("metadata.name=").removeprefix("=")
    return "" if "," in name else name
