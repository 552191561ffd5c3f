"""Words of the language that no identifier may be."""

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Kept for later versions of the language."""
KEYWORDS = RESERVED | {"true", "false", "null", "in"}
