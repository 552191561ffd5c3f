"""Migration from client-side to server-side apply, for objects created by `kubectl apply`.

As in Kubernetes, this applies only to the manager `kubectl`: fields that its last client-side apply set and
that still have that value do not conflict. Its annotation is updated on each apply, so that switching back to
client-side apply works too.
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
    """Return the fields that, by the annotation on `live`, kubectl set and that are unchanged since."""
    try:
        applied = orjson.loads(objects.annotations(live).get(ANNOTATION, ""))
    except orjson.JSONDecodeError:
        return {}
    if type(applied) is not dict or applied.get("apiVersion") != api_version or check.errors(applied, node):
        return {}
    shape = root(node)
    comparison = compare(applied, live, shape)
    claimed = shape.applied(applied) or {}
    return fieldset.difference(fieldset.difference(claimed, comparison.changed), comparison.removed)


def follow(obj: Object, config: Object) -> None:
    """Update the annotation to an applied configuration, if `obj` has the annotation."""
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
        remaining = {name: text for name, text in meta["annotations"].items() if name != ANNOTATION}
        config = {**config, "metadata": {**meta, "annotations": remaining}}
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode() + "\n"
