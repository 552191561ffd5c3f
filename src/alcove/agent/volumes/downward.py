"""The downward API: a pod's fields and the resources of its containers, as text. Pure: no I/O."""

import re
from collections.abc import Mapping

from msgspec import Struct

from alcove.agent.volumes.errors import VolumeFailure
from alcove.api import objects, quantity
from alcove.api.objects import Object

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]").fullmatch
_PLAIN = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.hostIP": ("status", "hostIP"),
    "status.podIP": ("status", "podIP"),
}
_ADDRESSES = {"status.hostIPs": "hostIPs", "status.podIPs": "podIPs"}
_SHORT = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


class DownwardMetadata(Struct, frozen=True):
    """The metadata that volumes of a pod can show, and that changes while it runs; empty if no volume shows any."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


def metadata(pod: Object) -> DownwardMetadata:
    if any(map(_is_downward, objects.get(pod, "spec", "volumes", default=()))):
        return DownwardMetadata(objects.labels(pod), objects.annotations(pod))
    return DownwardMetadata()


def _is_downward(volume: Object) -> bool:
    parts = objects.get(volume, "projected", "sources", default=())
    return "downwardAPI" in volume or any("downwardAPI" in each for each in parts)


def field(pod: Object, path: str) -> str:
    """The value of a `fieldRef`. Raises VolumeFailure if the field is not supported."""
    if path in _PLAIN:
        return str(objects.get(pod, *_PLAIN[path], default=""))
    if path in _ADDRESSES:
        addresses = objects.get(pod, "status", _ADDRESSES[path], default=())
        return ",".join(str(each.get("ip", "")) for each in addresses)
    if path == "metadata.labels":
        return _lines(objects.labels(pod))
    if path == "metadata.annotations":
        return _lines(objects.annotations(pod))
    if subscript := _SUBSCRIPT(path):
        values = objects.labels(pod) if subscript[1] == "labels" else objects.annotations(pod)
        return values.get(subscript[2], "")
    raise VolumeFailure(f"unsupported fieldPath: {path}")


def resource(pod: Object, ref: Object, allocatable: Mapping[str, str]) -> str:
    """The value of a `resourceFieldRef` in units of the divisor, rounded up. A limit that is not set defaults
    to the pod-level one, then to the node's allocatable amount. Raises VolumeFailure."""
    container = _container(pod, ref.get("containerName") or "")
    bound, _, name = str(ref.get("resource") or "").partition(".")
    if bound not in ("limits", "requests") or not name:
        raise VolumeFailure(f"unsupported container resource: {ref.get('resource')}")
    amount = objects.get(container, "resources", bound, name)
    if amount is None and bound == "limits":
        amount = objects.get(pod, "spec", "resources", "limits", name, default=allocatable.get(name))
    divisor = quantity.of(ref.get("divisor") or "1")
    if not divisor:
        divisor = quantity.of("1")
    return str(-(-quantity.of(amount or "0").nano // divisor.nano))


def _container(pod: Object, name: str) -> Object:
    for kind in ("containers", "initContainers"):
        for container in objects.get(pod, "spec", kind, default=()):
            if container.get("name") == name:
                return dict(container)
    raise VolumeFailure(f"container {name} not found")


def _lines(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quoted(pairs[key])}" for key in sorted(pairs))


def _quoted(text: str) -> str:
    return '"' + "".join(_escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
