"""FlowSchemas: defaults and checks, with Kubernetes' messages."""

from collections.abc import Sequence

import orjson

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required, too_long
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import child, named, named_required
from alcove.api.kinds.flowcontrol.defaults import EXEMPT, FLOW_SCHEMAS, MANDATORY
from alcove.api.kinds.flowcontrol.prioritylevels import check_conditions
from alcove.api.objects import Object, name

PRECEDENCE_DEFAULT = 1000
PRECEDENCE_MAX = 10_000
SPEC_LENGTH_MAX_BYTES = 16 << 10
"""Every request that is classified may be compared with all rules."""

_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
"""The field of each kind of subject."""


def default_schema(obj: Object) -> None:
    spec = child(obj, "spec")
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or PRECEDENCE_DEFAULT


def validate_schema(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _precedence(name(obj), spec.get("matchingPrecedence", 0))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        errors.append(not_supported("spec.distinguisherMethod.type", method, _METHODS))
    path, level = "spec.priorityLevelConfiguration.name", spec.get("priorityLevelConfiguration") or {}
    if level.get("name"):
        errors += named(level["name"], names.dns_subdomain, path)
    else:
        errors.append(required(path, "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules") or ()):
        errors += _rules(rule, f"spec.rules[{index}]")
    if name(obj) in MANDATORY and spec != FLOW_SCHEMAS[name(obj)]["spec"]:
        errors.append(invalid("spec", spec, f"spec of '{name(obj)}' must equal the fixed value"))
    if len(orjson.dumps(spec)) > SPEC_LENGTH_MAX_BYTES:
        errors.append(too_long("spec", SPEC_LENGTH_MAX_BYTES))
    return errors + check_conditions(obj)


def _precedence(schema: str, precedence: int) -> list[FieldError]:
    message = ""
    if precedence <= 0:
        message = "must be a positive value"
    elif precedence > PRECEDENCE_MAX:
        message = f"must not be greater than {PRECEDENCE_MAX}"
    elif precedence == 1 and schema != EXEMPT:
        message = "only the schema named 'exempt' may have matchingPrecedence 1"
    return [invalid("spec.matchingPrecedence", precedence, message)] if message else []


def _rules(rule: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    subjects = rule.get("subjects") or ()
    for index, subject in enumerate(subjects):
        errors += _subject(subject, f"{path}.subjects[{index}]")
    if not subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    resources, paths = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not paths:
        message = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, message))
    for index, each in enumerate(resources):
        errors += _resource_rule(each, f"{path}.resourceRules[{index}]")
    for index, each in enumerate(paths):
        errors += _path_rule(each, f"{path}.nonResourceRules[{index}]")
    return errors


def _subject(subject: Object, path: str) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    field = _SUBJECTS[kind]
    chosen = subject.get(field)
    if chosen is None:
        errors = [required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'")]
    elif kind == "ServiceAccount":
        errors = _service_account(chosen, f"{path}.serviceAccount")
    else:
        errors = [] if chosen.get("name") else [required(f"{path}.{field}.name")]
    for other, its_field in _SUBJECTS.items():
        if other != kind and subject.get(its_field) is not None:
            message = f"{its_field} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{path}.{its_field}", message))
    return errors


def _service_account(account: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if account.get("name") != "*":
        errors += named_required(account.get("name", ""), names.dns_subdomain, f"{path}.name")
    if account.get("namespace"):
        return errors + named(account["namespace"], names.dns_label, f"{path}.namespace")
    return [*errors, required(f"{path}.namespace", "must specify namespace for service account")]


def _verbs(rule: Object, path: str) -> list[FieldError]:
    verbs = rule.get("verbs") or []
    if not verbs:
        return [required(f"{path}.verbs", "verbs must contain at least one value")]
    if "*" in verbs:
        return _only_wildcard(verbs, f"{path}.verbs", "verbs")
    if set(verbs) <= set(_VERBS):
        return []
    return [not_supported(f"{path}.verbs", verbs, _VERBS)]


def _only_wildcard(values: Sequence[str], path: str, noun: str) -> list[FieldError]:
    if len(values) == 1:
        return []
    return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]


def _listed(rule: Object, path: str, field: str, one: str, several: str) -> list[FieldError]:
    values = rule.get(field) or []
    if not values:
        return [required(f"{path}.{field}", f"resource rules must supply at least one {one}")]
    return _only_wildcard(values, f"{path}.{field}", several) if "*" in values else []


def _resource_rule(rule: Object, path: str) -> list[FieldError]:
    errors = _verbs(rule, path)
    errors += _listed(rule, path, "apiGroups", "api group", "api groups")
    errors += _listed(rule, path, "resources", "resource", "resources")
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        message = "resource rules that are not cluster scoped must supply at least one namespace"
        return [*errors, required(f"{path}.namespaces", message)]
    if "*" in namespaces:
        return errors + _only_wildcard(namespaces, f"{path}.namespaces", "namespaces")
    introduction = "each member of this list must be '*' or a DNS-1123 label; "
    for index, namespace in enumerate(namespaces):
        errors += [
            invalid(f"{path}.namespaces[{index}]", namespace, introduction + message)
            for message in names.dns_label(namespace)
        ]
    return errors


def _path_rule(rule: Object, path: str) -> list[FieldError]:
    errors = _verbs(rule, path)
    urls = rule.get("nonResourceURLs") or []
    if not urls:
        message = "nonResourceURLs must contain at least one value"
        return [*errors, required(f"{path}.nonResourceURLs", message)]
    if "*" in urls:
        return errors + _only_wildcard(urls, f"{path}.nonResourceURLs", "non-resource URLs")
    for index, url in enumerate(urls):
        if message := _url_error(url):
            errors.append(invalid(f"{path}.nonResourceURLs[{index}]", url, message))
    return errors


def _url_error(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


STRATEGIES: dict[str, Strategy] = {
    "flowschemas": Strategy(
        default=default_schema,
        validate=validate_schema,
        validate_status=lambda new, _old: check_conditions(new),
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
    ),
}
