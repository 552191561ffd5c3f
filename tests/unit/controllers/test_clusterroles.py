"""Aggregated ClusterRoles."""

from typing import Any

from alcove.controllers.clusterroles import aggregate_rules


def role(name: str, *verbs: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": [verb]} for verb in verbs]}


def test_rules_are_aggregated_once_in_order_and_never_from_the_role_itself() -> None:
    selector = {"matchLabels": {"part": "yes"}}
    whole = role("whole", "old", part="yes")
    whole["aggregationRule"] = {
        "clusterRoleSelectors": [selector, {"matchLabels": {"bad key!": ""}}, selector]
    }
    every = [role("b", "get", "list", part="yes"), role("c", "no"), whole, role("a", "list", part="yes")]
    assert aggregate_rules(whole, every) == [{"verbs": ["list"]}, {"verbs": ["get"]}]
