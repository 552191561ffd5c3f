"""Keywords of the language, which cannot be identifiers."""

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
"""Reserved for later versions of the language."""
KEYWORDS = RESERVED | {"true", "false", "null", "in"}
