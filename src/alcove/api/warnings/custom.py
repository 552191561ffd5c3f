"""Custom resources: names of finalizers that others might choose too."""

from alcove.api import names
from alcove.api.objects import Object, get

_STANDARD = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_OTHERS = "to avoid accidental conflicts with other finalizer writers"


def resource(new: Object, old: Object | None) -> list[str]:
    before = get(old, "metadata", "finalizers", default=()) if old is not None else ()
    added = sorted(set(get(new, "metadata", "finalizers", default=())) - set(before))
    return [message for finalizer in added for message in _finalizer(finalizer)]


def _finalizer(name: str) -> list[str]:
    found = [f'metadata.finalizers: "{name}": {fault}' for fault in names.qualified_name(name)]
    if "/" not in name and name not in _STANDARD:
        better = "finalizer name including a path (/)" if "." in name else "finalizer name"
        found.append(f'metadata.finalizers: "{name}": prefer a domain-qualified {better} {_OTHERS}')
    return found
