"""Converts resources to their text in the stores' keys, and back."""

from functools import lru_cache

from alcove.api.ids import GroupResource


@lru_cache(maxsize=4_096)
def resource_text(resource: GroupResource) -> str:
    """`deployments.apps`. A resource's name has no dot, so the text can be parsed."""
    return str(resource)


@lru_cache(maxsize=4_096)
def resource_named(text: str) -> GroupResource:
    name, _, group = text.partition(".")
    return GroupResource(group, name)
