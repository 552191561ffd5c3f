"""Pod failure policies and success policies of jobs: rules about exit codes, conditions and indexes."""

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, not_supported, required, too_long, too_many
from alcove.api.kinds.batch import indexes
from alcove.api.kinds.checks import named, not_negative, one_of, refused
from alcove.api.objects import Object

ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
CONDITION_STATUSES = ("False", "True", "Unknown")
RULES_MAX = 20
EXIT_CODES_MAX = 255
PATTERNS_MAX = 20
SUCCEEDED_INDEXES_LENGTH_MAX_BYTES = 64 * 1024


def _valid_values(choices: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{choice}"' for choice in choices) + "]"


def default_failure_policy(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def validate_failure_policy(spec: Object, path: str) -> list[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in pod.get(field) or ()
    }
    errors: list[FieldError] = []
    if len(rules) > RULES_MAX:
        errors.append(too_many(f"{path}.rules", len(rules), RULES_MAX))
    for index, rule in enumerate(rules):
        errors += _failure_rule(rule, "backoffLimitPerIndex" in spec, containers, f"{path}.rules[{index}]")
    return errors


def _failure_rule(rule: Object, by_index: bool, containers: set[str], path: str) -> list[FieldError]:
    action, codes, patterns = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions")
    errors: list[FieldError] = []
    if not action:
        errors.append(required(f"{path}.action", _valid_values(ACTIONS)))
    elif action == "FailIndex" and not by_index:
        message = "requires the backoffLimitPerIndex to be set"
        errors.append(invalid(f"{path}.action", action, message))
    else:
        errors += one_of(action, ACTIONS, f"{path}.action")
    if codes is not None:
        errors += _exit_codes(codes, containers, f"{path}.onExitCodes")
    if patterns:
        errors += _patterns(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        errors.append(refused(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(refused(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _exit_codes(codes: Object, containers: set[str], path: str) -> list[FieldError]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    errors: list[FieldError] = []
    if not operator:
        errors.append(required(f"{path}.operator", _valid_values(OPERATORS)))
    elif operator not in OPERATORS:
        errors.append(not_supported(f"{path}.operator", operator, OPERATORS))
    if "containerName" in codes and codes["containerName"] not in containers:
        message = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", codes["containerName"], message))
    if not values:
        errors.append(invalid(f"{path}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > EXIT_CODES_MAX:
        errors.append(too_many(f"{path}.values", len(values), EXIT_CODES_MAX))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            message = "must not be 0 for the In operator"
            errors.append(invalid(f"{path}.values[{index}]", value, message))
        if value in seen:
            errors.append(duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _patterns(patterns: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(patterns) > PATTERNS_MAX:
        errors.append(too_many(path, len(patterns), PATTERNS_MAX))
    for index, pattern in enumerate(patterns):
        where, status = f"{path}[{index}]", pattern.get("status", "")
        errors += named(pattern.get("type", ""), names.qualified_name, f"{where}.type")
        if not status:
            errors.append(required(f"{where}.status", _valid_values(CONDITION_STATUSES)))
        else:
            errors += one_of(status, CONDITION_STATUSES, f"{where}.status")
    return errors


def validate_success_policy(spec: Object, path: str) -> list[FieldError]:
    rules = spec["successPolicy"].get("rules") or []
    errors: list[FieldError] = []
    if not rules:
        message = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", message))
    if len(rules) > RULES_MAX:
        errors.append(too_many(f"{path}.rules", len(rules), RULES_MAX))
    for index, rule in enumerate(rules):
        errors += _success_rule(rule, spec.get("completions") or 0, f"{path}.rules[{index}]")
    return errors


def _success_rule(rule: Object, completions: int, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "succeededCount" not in rule and "succeededIndexes" not in rule:
        message = "at least one of succeededCount or succeededIndexes must be specified"
        return [required(path, message)]
    total = 0
    if "succeededIndexes" in rule:
        text, where = rule["succeededIndexes"], f"{path}.succeededIndexes"
        if len(text.encode()) > SUCCEEDED_INDEXES_LENGTH_MAX_BYTES:
            errors.append(too_long(where, SUCCEEDED_INDEXES_LENGTH_MAX_BYTES))
        try:
            total = indexes.count(indexes.parse(text, completions))
        except indexes.IndexesError as error:
            errors.append(invalid(where, text, f"error parsing succeededIndexes: {error}"))
    if "succeededCount" in rule:
        errors += not_negative(rule, path, "succeededCount")
        count, where = rule["succeededCount"], f"{path}.succeededCount"
        if count > completions:
            message = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(where, count, message))
        if "succeededIndexes" in rule and count > total:
            message = (
                f"must be less than or equal to {total} "
                "(the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(where, count, message))
    return errors
