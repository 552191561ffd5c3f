"""Property names as expressions spell them: `x-y` is `x__dash__y`, `namespace` is `__namespace__`."""

import re

from alcove.api.cel.reserved_words import KEYWORDS

_SPELLED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_PARTS = re.compile(r"__|[-./]")


def escape(name: str) -> str | None:
    """Return the identifier for a property; None if it has none (`1a`, `a b`)."""
    if name in KEYWORDS:
        return f"__{name}__"
    if _ESCAPABLE.fullmatch(name) is None:
        return None
    return _PARTS.sub(lambda match: _SPELLED[match.group()], name)
