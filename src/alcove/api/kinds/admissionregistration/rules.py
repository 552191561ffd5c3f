"""Which writes a webhook or policy is about: rules, match conditions, match resources."""

from collections.abc import Sequence

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required, too_many
from alcove.api.kinds.checks import fill, named, named_required, one_of, one_of_required
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")
MATCH_POLICIES = ("Equivalent", "Exact")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_CONDITIONS_MAX = 64


def default_rules(rules: Sequence[Object]) -> None:
    for rule in rules:
        fill(rule, "scope", "*")


def validate_rule(rule: Object, path: str) -> list[FieldError]:
    """Operations on groups, versions and resources; a wildcard stands alone."""
    operations = rule.get("operations") or ()
    faults = _alone(operations, "operations", f"{path}.operations")
    for index, operation in enumerate(operations):
        faults += one_of(operation, OPERATIONS, f"{path}.operations[{index}]")
    faults += _alone(rule.get("apiGroups") or (), "API groups", f"{path}.apiGroups")
    versions = rule.get("apiVersions") or ()
    faults += _alone(versions, "API versions", f"{path}.apiVersions")
    faults += [required(f"{path}.apiVersions[{index}]") for index, each in enumerate(versions) if not each]
    faults += _resources(rule.get("resources") or [], f"{path}.resources")
    if "scope" in rule:
        faults += one_of(rule["scope"], SCOPES, f"{path}.scope")
    return faults


def _alone(values: Sequence[str], what: str, path: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources(resources: list[str], path: str) -> list[FieldError]:
    """`pods`, `pods/status`, `pods/*`, `*/scale`, `*`, `*/*`: none that another one covers already."""
    faults = [] if resources else [required(path)]
    with_any_subresource: set[str] = set()
    of_any_resource: set[str] = set()
    for index, text in enumerate(resources):
        where = f"{path}[{index}]"
        if not text:
            faults.append(required(where))
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in with_any_subresource:
            faults.append(invalid(where, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in of_any_resource:
            faults.append(invalid(where, text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == "*":
            with_any_subresource.add(resource)
        if resource == "*":
            of_any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        faults.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any(text and text != "*" and "/" not in text for text in resources):
        message = "if '*' is present, must not specify other resources without subresources"
        faults.append(invalid(path, resources, message))
    return faults


def validate_match_conditions(conditions: Sequence[Object], path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if len(conditions) > MATCH_CONDITIONS_MAX:
        faults.append(too_many(path, len(conditions), MATCH_CONDITIONS_MAX))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name", "")
        if not condition.get("expression", "").strip():
            faults.append(required(f"{where}.expression"))
        faults += named_required(name, names.qualified_name, f"{where}.name")
        if name and name in seen:
            faults.append(duplicate(f"{where}.name", name))
        seen.add(name)
    return faults


def default_match_resources(match: Object) -> None:
    fill(match, "matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    default_rules(match.get("resourceRules") or ())
    default_rules(match.get("excludeResourceRules") or ())


def validate_match_resources(match: Object, path: str) -> list[FieldError]:
    faults = one_of_required(match.get("matchPolicy", ""), MATCH_POLICIES, f"{path}.matchPolicy")
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field) is None:
            faults.append(required(f"{path}.{field}"))
        else:
            faults += validate_label_selector(match[field], f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            faults += _named_rule(rule, f"{path}.{field}[{index}]")
    return faults


def _named_rule(rule: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    given = rule.get("resourceNames") or []
    for index, name in enumerate(given):
        where = f"{path}.resourceNames[{index}]"
        faults += named(name, names.path_segment, where)
        if name in given[:index]:
            faults.append(duplicate(where, name))
    return faults + validate_rule(rule, path)


def mutating_operation_faults(match: Object, path: str) -> list[FieldError]:
    """What is deleted cannot be changed."""
    return [
        fault
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        for fault in one_of(operation, MUTATING_OPERATIONS, f"{path}.resourceRules.operations")
    ]
