"""Custom resources: finalizer names without a domain, which may collide."""

from alcove.api import names
from alcove.api.objects import Object, get

_STANDARD = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_OTHERS = "to avoid accidental conflicts with other finalizer writers"


def resource(new: Object, old: Object | None) -> list[str]:
    before = get(old, "metadata", "finalizers", default=()) if old is not None else ()
    added = sorted(set(get(new, "metadata", "finalizers", default=())) - set(before))
    return [message for finalizer in added for message in _finalizer(finalizer)]


def _finalizer(name: str) -> list[str]:
    messages = [f'metadata.finalizers: "{name}": {error}' for error in names.qualified_name(name)]
    if "/" not in name and name not in _STANDARD:
        better = "finalizer name including a path (/)" if "." in name else "finalizer name"
        messages.append(f'metadata.finalizers: "{name}": prefer a domain-qualified {better} {_OTHERS}')
    return messages
