"""Printer columns: what `kubectl get` shows of each kind, computed here."""

from alcove.api.columns import base
from alcove.api.kind import Column


def columns_for(group: str, kind: str) -> tuple[Column, ...]:
    """The columns of a registered kind; those without special ones show name and time of creation."""
    return base.DEFAULT
