"""`$(NAME)` in commands and in the values of variables, as Kubernetes replaces it.

What is not known stays as it is; `$$` is a dollar that begins nothing.
"""

import re
from collections.abc import Mapping, Sequence

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return known.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


def environment(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Variables in order: each may refer to those before it; of two with the same name the later counts."""
    known: dict[str, str] = {}
    for name, value in pairs:
        known[name] = expand(value, known)
    return known
