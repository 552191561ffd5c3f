"""Matching of pods' tolerations against nodes' taints."""

from __future__ import annotations

from alcove.api.objects import Object


def covers(toleration: Object, taint: Object) -> bool:
    """Whether the toleration tolerates the taint. An empty effect matches all effects, an empty key all
    keys."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )
