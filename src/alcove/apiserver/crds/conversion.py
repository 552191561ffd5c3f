"""Between versions of a custom resource: by changing its apiVersion, or by asking a webhook.

A webhook gets a ConversionReview with all objects of a request at once. Where it is and how to reach
it is the caller's business (`WebhookCall`); what it may answer is checked here: the objects in order, of the
asked version, the same objects as before but for their content, labels and annotations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from alcove.api.errors import InternalError
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.meta import new_uid
from alcove.api.objects import Object, get
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.prune import prune
from alcove.apiserver.outbound.errors import WebhookError as WebhookError
from alcove.apiserver.outbound.webhooks import WebhookCall as WebhookCall

SUPPORTED = ("v1", "v1beta1")
TIMEOUT_SECONDS = 30


def relabel(api_version: str, node: SchemaNode) -> Callable[[Object], Object]:
    """Conversion None: the object at another version is the object, but for what that version does not know."""

    def convert(obj: Object) -> Object:
        if obj["apiVersion"] != api_version:
            obj["apiVersion"] = api_version
            prune(node, obj)
        return obj

    return convert


class Converter:
    """Conversion by webhook, for one CRD of one tenant."""

    def __init__(self, crd: Object, nodes: Mapping[str, SchemaNode], call: WebhookCall) -> None:
        """`nodes` are the versions' schemas, by apiVersion."""
        webhook = get(crd, "spec", "conversion", "webhook", default={})
        self._client: Object = webhook.get("clientConfig") or {}
        given = webhook.get("conversionReviewVersions") or ()
        self._review = next((version for version in given if version in SUPPORTED), "")
        self._nodes = nodes
        self._call = call

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """The objects at `api_version`, in order; those that are at it stay. Raises InternalError."""
        asked = [obj for obj in objects if obj.get("apiVersion") != api_version]
        if not asked:
            return list(objects)
        converted = iter(await self._ask(asked, api_version))
        return [obj if obj.get("apiVersion") == api_version else next(converted) for obj in objects]

    async def _ask(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        prefix = f"conversion webhook for {_gvk(objects[0])}"
        uid = new_uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
        review = f"apiextensions.k8s.io/{self._review}"
        body = orjson.dumps({"kind": "ConversionReview", "apiVersion": review, "request": request})
        try:
            answer = await self._call(self._client, body, timeout_seconds=TIMEOUT_SECONDS)
            converted = _objects(answer, review, uid)
        except (WebhookError, _BadAnswer) as error:
            raise InternalError(f"{prefix} failed: {error}") from error
        if len(converted) != len(objects):
            raise InternalError(f"{prefix} returned {len(converted)} objects, expected {len(objects)}")
        for index, (before, after) in enumerate(zip(objects, converted, strict=True)):
            try:
                _adopt(before, after, api_version)
            except _BadAnswer as error:
                message = f"{prefix} returned invalid converted object at index {index}: {error}"
                raise InternalError(message) from error
            prune(self._nodes[api_version], after)
        return converted


class _BadAnswer(Exception):
    pass


def _gvk(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind', '')}"


def _objects(answer: bytes, review: str, uid: str) -> list[Any]:
    """The converted objects of a webhook's answer. Raises _BadAnswer."""
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise _BadAnswer(f"the answer is not JSON: {error}") from error
    if not isinstance(document, dict) or (document.get("kind"), document.get("apiVersion")) != (
        "ConversionReview",
        review,
    ):
        got = _gvk(document) if isinstance(document, dict) else "no object"
        raise _BadAnswer(f"expected webhook response of {review}, Kind=ConversionReview, got {got}")
    response = document.get("response")
    if not isinstance(response, dict):
        raise _BadAnswer("no response provided")
    if response.get("uid") != uid and review.endswith("/v1"):
        raise _BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        fallback = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise _BadAnswer(str(result.get("message") or fallback))
    converted = response.get("convertedObjects")
    return converted if isinstance(converted, list) else []


def _adopt(before: Object, after: Any, api_version: str) -> None:
    """Checks a converted object and gives it back the metadata it may not change. Raises _BadAnswer."""
    if not isinstance(after, dict):
        raise _BadAnswer("must be an object")
    if after.get("apiVersion") != api_version:
        message = f"invalid groupVersion (expected {api_version}, received {after.get('apiVersion', '')})"
        raise _BadAnswer(message)
    if after.get("kind") != before.get("kind"):
        raise _BadAnswer(f"invalid kind (expected {before.get('kind')}, received {after.get('kind', '')})")
    given = after.get("metadata")
    if not isinstance(given, dict):
        raise _BadAnswer("missing metadata in converted object")
    kept = before.get("metadata") or {}
    for field, message in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (kept.get(field) or "") != (given.get(field) or ""):
            raise _BadAnswer(f"must have the same {message}: {kept.get(field, '')} != {given.get(field, '')}")
    after["metadata"] = {**copy.deepcopy(kept), **_carried(given)}
    for field in ("labels", "annotations"):
        if not given.get(field):
            after["metadata"].pop(field, None)


def _carried(given: Object) -> Object:
    """Labels and annotations, which a conversion may change. Raises _BadAnswer."""
    carried: Object = {}
    for field, check in (("labels", validate_labels), ("annotations", validate_annotations)):
        entries = given.get(field)
        if not entries:
            continue
        if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
            raise _BadAnswer(f"invalid metadata.{field} in converted object: must be a map of strings")
        faults = check(entries, f"metadata.{field}")
        if faults:
            raise _BadAnswer(str(faults[0]))
        carried[field] = entries
    return carried
