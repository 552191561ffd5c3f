"""The way from client-side to server-side apply, for objects that `kubectl apply` made.

Only for the manager `kubectl`, as in Kubernetes: fields that its last client-side apply set and that
still have that value do not conflict, and its annotation follows what it applies from then on, so that
going back to client-side apply works too.
"""

import orjson

from alcove.api import objects
from alcove.api.objects import Object
from alcove.api.patch.apply import check, fieldset
from alcove.api.patch.apply.compare import compare
from alcove.api.patch.apply.fieldset import Trie
from alcove.api.patch.apply.shape import root
from alcove.api.schema.node import SchemaNode

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_ANNOTATIONS_BYTES_MAX = 256 * 1024


def allowed(live: Object, node: SchemaNode, api_version: str) -> Trie:
    """The fields that the annotation on `live` says are kubectl's: it set them, and nobody since."""
    try:
        applied = orjson.loads(objects.annotations(live).get(ANNOTATION, ""))
    except orjson.JSONDecodeError:
        return {}
    if type(applied) is not dict or applied.get("apiVersion") != api_version or check.faults(applied, node):
        return {}
    shape = root(node)
    found = compare(applied, live, shape)
    claimed = shape.applied(applied) or {}
    return fieldset.difference(fieldset.difference(claimed, found.changed), found.removed)


def follow(obj: Object, config: Object) -> None:
    """Brings the annotation up to date with an applied configuration, if `obj` has one."""
    annotations = objects.annotations(obj)
    if not annotations.get(ANNOTATION):
        return
    annotations[ANNOTATION] = _encoded(config)
    size = sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())
    if size > _ANNOTATIONS_BYTES_MAX:
        del annotations[ANNOTATION]


def _encoded(config: Object) -> str:
    meta = config.get("metadata")
    if type(meta) is dict and ANNOTATION in (meta.get("annotations") or {}):
        kept = {name: text for name, text in meta["annotations"].items() if name != ANNOTATION}
        config = {**config, "metadata": {**meta, "annotations": kept}}
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode() + "\n"
