"""What a restore does with objects that exist already."""

from enum import StrEnum


class Existing(StrEnum):
    REFUSE = "refuse"
    """Nothing is restored."""
    KEEP = "keep"
    OVERWRITE = "overwrite"
