"""Functions for expressions that create JSON patches."""

from alcove.api.cel.budget import text_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.types import STRING

PATCHES = Library()


@PATCHES.function("jsonpatch.escapeKey", (STRING,), STRING, cost=lambda key: text_cost(len(key)))
def _escape_key(key: str) -> str:
    """Escape a key for use as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
