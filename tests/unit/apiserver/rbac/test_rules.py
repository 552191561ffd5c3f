"""Rules: matching, covering, and the law that relates the two."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.objects import Object
from alcove.apiserver.rbac import escalation
from alcove.apiserver.rbac.rules import PolicyRule, compile_rule, compile_rules, quote, quoted

VERBS, GROUPS, RESOURCES = ("get", "list", "create"), ("", "apps"), ("pods", "deployments")
SUBRESOURCES, NAMES, PATHS = ("", "status", "scale"), ("", "a", "b"), ("/api", "/api/v1", "/apis", "/metrics")


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


resource_rules = st.fixed_dictionaries(
    {
        "verbs": some([*VERBS, "*"]),
        "apiGroups": some([*GROUPS, "*"]),
        "resources": some([*RESOURCES, "*", "pods/status", "deployments/scale", "*/scale", "*/status"]),
        "resourceNames": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
    }
)
url_rules = st.fixed_dictionaries(
    {"verbs": some([*VERBS, "*"]), "nonResourceURLs": some([*PATHS, "*", "/api*", "/api/*", "/a*"])}
)
rules = st.lists(st.one_of(resource_rules, url_rules), max_size=4)


def allowed(raws: list[Object]) -> set[tuple[str, ...]]:
    """Everything, of a small world, that rules allow: read off their definition, without the code under test."""
    found: set[tuple[str, ...]] = set()
    for raw in raws:
        for verb in VERBS:
            if not {verb, "*"} & set(raw["verbs"]):
                continue
            for path in PATHS:
                urls = raw.get("nonResourceURLs", ())
                if any(url == path or (url[-1] == "*" and path.startswith(url[:-1])) for url in urls):
                    found.add((verb, path))
            for group in GROUPS:
                if not {group, "*"} & set(raw.get("apiGroups", ())):
                    continue
                for resource in RESOURCES:
                    for subresource in SUBRESOURCES:
                        whole = f"{resource}/{subresource}" if subresource else resource
                        wild = f"*/{subresource}" if subresource else whole
                        if not {whole, wild, "*"} & set(raw["resources"]):
                            continue
                        for name in NAMES:
                            if not raw["resourceNames"] or name in raw["resourceNames"]:
                                found.add((verb, group, resource, subresource, name))
    return found


@settings(deadline=None)
@given(rules)
def test_matches_what_the_words_say(raws: list[Object]) -> None:
    expected, compiled = allowed(raws), compile_rules(raws)
    for verb in VERBS:
        for path in PATHS:
            assert any(rule.matches_path(verb, path) for rule in compiled) == ((verb, path) in expected)
        for group in GROUPS:
            for resource in RESOURCES:
                for subresource in SUBRESOURCES:
                    for name in NAMES:
                        found = any(
                            rule.matches(verb, group, resource, subresource)
                            and rule.covered_names(frozenset((name,)))
                            for rule in compiled
                        )
                        assert found == ((verb, group, resource, subresource, name) in expected)


@settings(deadline=None)
@given(rules, rules)
def test_covering_a_role_implies_all_its_permissions(held: list[Object], wanted: list[Object]) -> None:
    if not escalation.missing(compile_rules(held), compile_rules(wanted)):
        assert allowed(wanted) <= allowed(held)


@settings(deadline=None)
@given(rules, rules)
def test_granting_the_reported_missing_rules_leaves_none_missing(
    held: list[Object], wanted: list[Object]
) -> None:
    lacking = escalation.missing(compile_rules(held), compile_rules(wanted))
    assert not escalation.missing([*compile_rules(held), *lacking], compile_rules(wanted))


@settings(deadline=None)
@given(rules)
def test_everybody_may_give_what_they_have_and_cluster_admins_anything(raws: list[Object]) -> None:
    compiled = compile_rules(raws)
    assert not escalation.missing(compiled, compiled)
    everything = [PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",))]
    assert not escalation.missing(everything, compiled)


@settings(deadline=None)
@given(resource_rules)
def test_equal_rules_share_one_object_and_keep_their_text(raw: Object) -> None:
    assert compile_rule(raw) is compile_rule(dict(raw))
    assert compile_rule(raw).to_object() == {field: value for field, value in raw.items() if value}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            PolicyRule(("get", "list"), ("",), ("pods",)),
            '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        ),
        (PolicyRule(("*",), urls=("/metrics",)), '{NonResourceURLs:["/metrics"], Verbs:["*"]}'),
        (
            PolicyRule(("get",), ("apps",), ("deployments",), ("web",)),
            '{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["web"], Verbs:["get"]}',
        ),
    ],
)
def test_a_rule_is_formatted_as_kubernetes_does(rule: PolicyRule, message: str) -> None:
    assert str(rule) == message


def test_quotes() -> None:
    assert quote('a"b\\c') == '"a\\"b\\\\c"'
    assert quote("a\nb") == '"a\\nb"'
    assert quoted([]) == "[]"
    assert quoted(["a", "b c"]) == '["a" "b c"]'


def test_a_star_inside_is_no_wildcard() -> None:
    rule = PolicyRule(("get",), ("",), ("pods/*", "po*"), urls=())
    assert not rule.matches("get", "", "pods", "log")
    assert not rule.matches("get", "", "pods", "")
    assert not PolicyRule(("g*",), ("",), ("pods",)).matches("get", "", "pods", "")
