"""Conflicts: fields that an applier would change and that others own."""

from collections.abc import Iterator

from alcove.api.errors import Conflict, Details, StatusCause
from alcove.api.fields import quote
from alcove.api.patch.apply import elements, fieldset
from alcove.api.patch.apply.fieldset import Trie
from alcove.api.patch.apply.managed import UPDATE, FieldOwner

Conflicts = dict[FieldOwner, Trie]


def without(conflicts: Conflicts, allowed: Trie) -> Conflicts:
    """Those conflicts that are not about a field in `allowed`."""
    left = {owner: fieldset.difference(trie, allowed) for owner, trie in conflicts.items()}
    return {owner: trie for owner, trie in left.items() if trie}


def error(conflicts: Conflicts) -> Conflict:
    """The 409 that tells a client what to take out of its configuration, or to force."""
    ordered = sorted(conflicts.items(), key=lambda found: (found[0].manager, found[0].operation))
    causes = tuple(
        StatusCause("FieldManagerConflict", f"conflict with {_told(owner)}", path)
        for owner, trie in ordered
        for path in _paths(trie)
    )
    return Conflict(_message(ordered, causes), Details(causes=causes))


def _message(ordered: list[tuple[FieldOwner, Trie]], causes: tuple[StatusCause, ...]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    lines: list[str] = []
    for owner, trie in ordered:
        lines.append(f"conflicts with {_told(owner)}:")
        lines.extend(f"- {path}" for path in _paths(trie))
    return f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)


def _paths(trie: Trie) -> Iterator[str]:
    return map(elements.shown, fieldset.paths(trie))


def _told(owner: FieldOwner) -> str:
    message = quote(owner.manager)
    if owner.subresource:
        message += f" with subresource {quote(owner.subresource)}"
    return f"{message} using {owner.api_version}" if owner.operation == UPDATE else message
