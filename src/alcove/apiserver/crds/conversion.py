"""Conversion between versions of a custom resource: by changing its apiVersion, or by a webhook.

A webhook gets one ConversionReview with all given objects. How to reach it is up to `WebhookCall`; its
response is checked here: it must have the same objects in order, at the requested version, and may change
only their content, labels and annotations. That is computed beside the event loop if the response is not small.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.errors import BadRequest, InternalError, TooLarge, TooManyRequests
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.meta import new_uid
from alcove.api.objects import Object, get
from alcove.api.schema.body import check_values
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.prune import prune
from alcove.apiserver.outbound.errors import TooManyCalls
from alcove.apiserver.outbound.errors import WebhookError as WebhookError
from alcove.apiserver.outbound.webhooks import WebhookCall as WebhookCall

SUPPORTED = ("v1", "v1beta1")
TIMEOUT_SECONDS = 30
CONVERTED_VALUES_MAX = 100_000
"""Values (strings, numbers, lists, maps) of one response: as many as a stored object may have. A response with more is
refused."""


Compute = Callable[[int, Callable[[], Any]], Awaitable[Any]]
"""The result of a function that processes so many bytes, for one tenant (`ComputeThreads.for_size`)."""


class ConversionParts(Struct, frozen=True):
    """What conversions for one tenant need."""

    call: WebhookCall
    compute: Compute


def relabel(api_version: str, node: SchemaNode) -> Callable[[Object], Object]:
    """Conversion strategy None: sets the apiVersion and removes the fields that are not in the version's
    schema."""

    def convert(obj: Object) -> Object:
        if obj["apiVersion"] != api_version:
            obj["apiVersion"] = api_version
            prune(node, obj)
        return obj

    return convert


class Converter:
    """Conversion by webhook, for one CRD of one tenant."""

    def __init__(self, crd: Object, nodes: Mapping[str, SchemaNode], parts: ConversionParts) -> None:
        """`nodes` are the versions' schemas, by apiVersion."""
        webhook = get(crd, "spec", "conversion", "webhook", default={})
        self._client: Object = webhook.get("clientConfig") or {}
        review_versions = webhook.get("conversionReviewVersions") or ()
        self._review = next((version for version in review_versions if version in SUPPORTED), "")
        self._nodes = nodes
        self._parts = parts

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """The objects at `api_version`, in order; those already at it are not changed. Raises
        InternalError, and TooManyRequests if too many webhooks of the tenant are being called."""
        others = [obj for obj in objects if obj.get("apiVersion") != api_version]
        if not others:
            return list(objects)
        converted = iter(await self._call_webhook(others, api_version))
        return [obj if obj.get("apiVersion") == api_version else next(converted) for obj in objects]

    async def _call_webhook(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        prefix = f"conversion webhook for {_gvk(objects[0])}"
        uid = new_uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
        review = f"apiextensions.k8s.io/{self._review}"
        body = orjson.dumps({"kind": "ConversionReview", "apiVersion": review, "request": request})
        try:
            call = self._parts.call(self._client, body, timeout_seconds=TIMEOUT_SECONDS)
            async with call as response:
                read = partial(self._read, response, review, uid, objects, api_version)
                converted: list[Object] = await self._parts.compute(len(response), read)
        except TooManyCalls as error:
            raise TooManyRequests.after(1, f"{error}; try again") from error
        except WebhookError as error:
            raise InternalError(f"{prefix} failed: {error}") from error
        except _InvalidResponse as error:
            raise InternalError(f"{prefix} {error}") from error
        return converted

    def _read(
        self, response: bytes, review: str, uid: str, objects: Sequence[Object], api_version: str
    ) -> list[Object]:
        """The objects in a webhook's response, checked and pruned. Raises _InvalidResponse."""
        try:
            converted = _objects(response, review, uid)
        except _InvalidResponse as error:
            raise _InvalidResponse(f"failed: {error}") from error
        if len(converted) != len(objects):
            raise _InvalidResponse(f"returned {len(converted)} objects, expected {len(objects)}")
        for index, (before, after) in enumerate(zip(objects, converted, strict=True)):
            try:
                _check_converted(before, after, api_version)
            except _InvalidResponse as error:
                raise _InvalidResponse(
                    f"returned invalid converted object at index {index}: {error}"
                ) from error
            prune(self._nodes[api_version], after)
        return converted


class _InvalidResponse(Exception):
    pass


def _gvk(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind', '')}"


def _objects(body: bytes, review: str, uid: str) -> list[Any]:
    """The converted objects in a webhook's response. Raises _InvalidResponse."""
    try:
        check_values(body, CONVERTED_VALUES_MAX)
        document = orjson.loads(body)
    except (BadRequest, TooLarge) as error:
        raise _InvalidResponse(f"the response has more than {CONVERTED_VALUES_MAX} values") from error
    except orjson.JSONDecodeError as error:
        raise _InvalidResponse(f"the response is not JSON: {error}") from error
    if not isinstance(document, dict) or (document.get("kind"), document.get("apiVersion")) != (
        "ConversionReview",
        review,
    ):
        got = _gvk(document) if isinstance(document, dict) else "no object"
        raise _InvalidResponse(f"expected webhook response of {review}, Kind=ConversionReview, got {got}")
    response = document.get("response")
    if not isinstance(response, dict):
        raise _InvalidResponse("no response provided")
    if response.get("uid") != uid and review.endswith("/v1"):
        raise _InvalidResponse(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        fallback = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise _InvalidResponse(str(result.get("message") or fallback))
    converted = response.get("convertedObjects")
    return converted if isinstance(converted, list) else []


def _check_converted(before: Object, after: Any, api_version: str) -> None:
    """Checks a converted object and restores the metadata that it may not change. Raises _InvalidResponse."""
    if not isinstance(after, dict):
        raise _InvalidResponse("must be an object")
    if after.get("apiVersion") != api_version:
        message = f"invalid groupVersion (expected {api_version}, received {after.get('apiVersion', '')})"
        raise _InvalidResponse(message)
    if after.get("kind") != before.get("kind"):
        raise _InvalidResponse(
            f"invalid kind (expected {before.get('kind')}, received {after.get('kind', '')})"
        )
    converted_meta = after.get("metadata")
    if not isinstance(converted_meta, dict):
        raise _InvalidResponse("missing metadata in converted object")
    original_meta = before.get("metadata") or {}
    for field, label in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (original_meta.get(field) or "") != (converted_meta.get(field) or ""):
            expected, received = original_meta.get(field, ""), converted_meta.get(field, "")
            raise _InvalidResponse(f"must have the same {label}: {expected} != {received}")
    after["metadata"] = {**copy.deepcopy(original_meta), **_mutable_metadata(converted_meta)}
    for field in ("labels", "annotations"):
        if not converted_meta.get(field):
            after["metadata"].pop(field, None)


def _mutable_metadata(metadata: Object) -> Object:
    """Labels and annotations, which a conversion may change. Raises _InvalidResponse."""
    carried: Object = {}
    for field, check in (("labels", validate_labels), ("annotations", validate_annotations)):
        entries = metadata.get(field)
        if not entries:
            continue
        if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
            raise _InvalidResponse(f"invalid metadata.{field} in converted object: must be a map of strings")
        errors = check(entries, f"metadata.{field}")
        if errors:
            raise _InvalidResponse(str(errors[0]))
        carried[field] = entries
    return carried
