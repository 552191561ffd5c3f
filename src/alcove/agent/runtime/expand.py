"""Expansion of `$(NAME)` in commands and in values of variables, as in Kubernetes.

References to unknown variables stay as they are; `$$` is a literal dollar sign.
"""

import re
from collections.abc import Mapping, Sequence

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return variables.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


def environment(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Expands variables in order: each may refer to those before it. A later one of the same name wins."""
    variables: dict[str, str] = {}
    for name, value in pairs:
        variables[name] = expand(value, variables)
    return variables
