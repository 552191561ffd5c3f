"""Conflicts: fields that an applier would change and that other managers own."""

from collections.abc import Iterator

from alcove.api.errors import Conflict, Details, StatusCause
from alcove.api.fields import quote
from alcove.api.patch.apply import elements, fieldset
from alcove.api.patch.apply.fieldset import Trie
from alcove.api.patch.apply.managed import UPDATE, FieldOwner

Conflicts = dict[FieldOwner, Trie]


def without(conflicts: Conflicts, allowed: Trie) -> Conflicts:
    """Return the conflicts without the fields in `allowed`."""
    remaining = {owner: fieldset.difference(trie, allowed) for owner, trie in conflicts.items()}
    return {owner: trie for owner, trie in remaining.items() if trie}


def error(conflicts: Conflicts) -> Conflict:
    """Return the 409 that lists the fields to remove from the configuration, or to force."""
    ordered = sorted(conflicts.items(), key=lambda item: (item[0].manager, item[0].operation))
    causes = tuple(
        StatusCause("FieldManagerConflict", f"conflict with {_owner_text(owner)}", path)
        for owner, trie in ordered
        for path in _paths(trie)
    )
    return Conflict(_message(ordered, causes), Details(causes=causes))


def _message(ordered: list[tuple[FieldOwner, Trie]], causes: tuple[StatusCause, ...]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    lines: list[str] = []
    for owner, trie in ordered:
        lines.append(f"conflicts with {_owner_text(owner)}:")
        lines.extend(f"- {path}" for path in _paths(trie))
    return f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)


def _paths(trie: Trie) -> Iterator[str]:
    return map(elements.shown, fieldset.paths(trie))


def _owner_text(owner: FieldOwner) -> str:
    message = quote(owner.manager)
    if owner.subresource:
        message += f" with subresource {quote(owner.subresource)}"
    return f"{message} using {owner.api_version}" if owner.operation == UPDATE else message
