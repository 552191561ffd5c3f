"""Which requests a webhook or policy matches: rules, match conditions, match resources."""

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
    """Check operations, groups, versions and resources; a wildcard must be the only entry."""
    operations = rule.get("operations") or ()
    errors = _alone(operations, "operations", f"{path}.operations")
    for index, operation in enumerate(operations):
        errors += one_of(operation, OPERATIONS, f"{path}.operations[{index}]")
    errors += _alone(rule.get("apiGroups") or (), "API groups", f"{path}.apiGroups")
    versions = rule.get("apiVersions") or ()
    errors += _alone(versions, "API versions", f"{path}.apiVersions")
    errors += [required(f"{path}.apiVersions[{index}]") for index, each in enumerate(versions) if not each]
    errors += _resources(rule.get("resources") or [], f"{path}.resources")
    if "scope" in rule:
        errors += one_of(rule["scope"], SCOPES, f"{path}.scope")
    return errors


def _alone(values: Sequence[str], description: str, path: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {description}")]
    return []


def _resources(resources: list[str], path: str) -> list[FieldError]:
    """Check `pods`, `pods/status`, `pods/*`, `*/scale`, `*`, `*/*`: no entry may be covered by another."""
    errors = [] if resources else [required(path)]
    with_any_subresource: set[str] = set()
    any_resource: set[str] = set()
    for index, text in enumerate(resources):
        where = f"{path}[{index}]"
        if not text:
            errors.append(required(where))
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in with_any_subresource:
            errors.append(invalid(where, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in any_resource:
            errors.append(invalid(where, text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == "*":
            with_any_subresource.add(resource)
        if resource == "*":
            any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any(text and text != "*" and "/" not in text for text in resources):
        message = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, message))
    return errors


def validate_match_conditions(conditions: Sequence[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > MATCH_CONDITIONS_MAX:
        errors.append(too_many(path, len(conditions), MATCH_CONDITIONS_MAX))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.append(required(f"{where}.expression"))
        errors += named_required(name, names.qualified_name, f"{where}.name")
        if name and name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
    return errors


def default_match_resources(match: Object) -> None:
    fill(match, "matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    default_rules(match.get("resourceRules") or ())
    default_rules(match.get("excludeResourceRules") or ())


def validate_match_resources(match: Object, path: str) -> list[FieldError]:
    errors = one_of_required(match.get("matchPolicy", ""), MATCH_POLICIES, f"{path}.matchPolicy")
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field) is None:
            errors.append(required(f"{path}.{field}"))
        else:
            errors += validate_label_selector(match[field], f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += _named_rule(rule, f"{path}.{field}[{index}]")
    return errors


def _named_rule(rule: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    resource_names = rule.get("resourceNames") or []
    for index, name in enumerate(resource_names):
        where = f"{path}.resourceNames[{index}]"
        errors += named(name, names.path_segment, where)
        if name in resource_names[:index]:
            errors.append(duplicate(where, name))
    return errors + validate_rule(rule, path)


def mutating_operation_errors(match: Object, path: str) -> list[FieldError]:
    """A mutating policy cannot match DELETE."""
    return [
        error
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        for error in one_of(operation, MUTATING_OPERATIONS, f"{path}.resourceRules.operations")
    ]
