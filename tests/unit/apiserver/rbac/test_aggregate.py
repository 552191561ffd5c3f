"""Aggregated roles: selected by labels, also through other aggregated roles, each rule once, without endless
recursion."""

import time

from alcove.api.objects import Object
from alcove.apiserver.rbac import aggregate
from alcove.apiserver.rbac.aggregate import FOLLOWED_MAX
from alcove.apiserver.rbac.roletables import by_name


def plain(name: str, verb: str, **labels: str) -> Object:
    rules = [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


def gathering(name: str, *selectors: Object, **labels: str) -> Object:
    rule = {"clusterRoleSelectors": list(selectors)}
    return {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule, "rules": []}


def verbs(role: Object, *others: Object) -> list[str]:
    return [rule.verbs[0] for rule in aggregate.aggregate(role, by_name([role, *others]))]


def match(**labels: str) -> Object:
    return {"matchLabels": labels}


def test_a_plain_role_has_its_own_rules() -> None:
    assert verbs(plain("a", "get")) == ["get"]
    assert verbs({"metadata": {"name": "a"}, "rules": None}) == []


def test_gathers_what_the_labels_select_in_order_of_names_each_rule_once() -> None:
    role = gathering("all", match(to="all"))
    others = [
        plain("c", "list", to="all"),
        plain("b", "get", to="all"),
        plain("d", "get", to="all"),
        plain("e", "watch"),
    ]
    assert verbs(role, *others) == ["get", "list"]


def test_several_selectors_add_up_and_expressions_count() -> None:
    expression = {"matchExpressions": [{"key": "to", "operator": "In", "values": ["y", "z"]}]}
    role = gathering("all", match(to="x"), expression)
    assert verbs(role, plain("a", "get", to="z"), plain("b", "list", to="x")) == ["list", "get"]


def test_its_own_rules_do_not_count() -> None:
    role = {**gathering("all", match(to="all")), "rules": plain("x", "delete")["rules"]}
    assert verbs(role, plain("b", "get", to="all")) == ["get"]


def test_follows_other_aggregated_roles_at_once() -> None:
    admin = gathering("admin", match(to="admin"))
    edit = gathering("edit", match(to="edit"), to="admin")
    view = gathering("view", match(to="view"), to="edit")
    others = [
        edit,
        view,
        plain("v", "get", to="view"),
        plain("e", "create", to="edit"),
        plain("a", "bind", to="admin"),
    ]
    assert verbs(admin, *others) == ["bind", "create", "get"]


def test_cyclic_aggregation_ends() -> None:
    one = gathering("one", match(to="one"), to="two")
    two = gathering("two", match(to="two"), to="one")
    assert verbs(one, two, plain("a", "get", to="two"), plain("b", "list", to="one")) == ["list", "get"]


def test_a_selector_that_cannot_be_read_gives_nothing() -> None:
    broken = {"matchExpressions": [{"key": "to", "operator": "Near", "values": ["x"]}]}
    assert verbs(
        gathering("all", broken, match(to="y")), plain("a", "get", to="x"), plain("b", "list", to="y")
    ) == ["list"]


def test_an_empty_selector_gathers_everything() -> None:
    assert verbs(gathering("all", {}), plain("a", "get"), plain("b", "list")) == ["get", "list"]


def test_a_hostile_chain_costs_little_and_gives_no_more() -> None:
    chain = [gathering(f"{n:04}", match(to=str(n + 1)), to=str(n)) for n in range(2000)]
    started = time.process_time()
    assert verbs(chain[0], *chain[1:], plain("end", "get", to="2000")) == []
    assert time.process_time() - started < 10
    short = chain[: FOLLOWED_MAX - 1]
    assert verbs(short[0], *short[1:], plain("end", "get", to=str(len(short)))) == ["get"]
