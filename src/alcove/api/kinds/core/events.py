"""Events in the core group."""

from collections.abc import Callable

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import Strategy
from alcove.api.objects import Object, get
from alcove.api.objects import namespace as namespace_of
from alcove.api.validation import FieldErrors, check_value

_LENGTHS_MAX = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _validate(event: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    namespace, about = namespace_of(event), get(event, "involvedObject", "namespace", default="")
    message = "does not match event.namespace"
    if event.get("eventTime"):
        if not about and namespace not in ("default", "kube-system"):
            errors.append(invalid("involvedObject.namespace", about, message))
        _check_reported(event, errors)
    elif namespace != about and (about or namespace not in ("", "default")):
        errors.append(invalid("involvedObject.namespace", about, message))
    check_value(namespace, names.dns_subdomain, "namespace", errors)
    return errors


def _check_reported(event: Object, errors: FieldErrors) -> None:
    """Events of the newer form must have a reporting controller and instance, an action and a reason."""
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(required("reportingComponent"))
    check_value(reporter, names.qualified_name, "reportingComponent", errors)
    for field, maximum in _LENGTHS_MAX.items():
        text = event.get(field, "")
        if not text and field != "message":
            errors.append(required(field))
        if len(text.encode()) > maximum:
            errors.append(invalid(field, "", f"can have at most {maximum} characters"))


def _involved(field: str) -> Callable[[Object], str]:
    return lambda event: str(get(event, "involvedObject", field, default=""))


def _text(field: str) -> Callable[[Object], str]:
    return lambda event: str(event.get(field, ""))


def _source(event: Object) -> str:
    return str(get(event, "source", "component") or event.get("reportingComponent", ""))


STRATEGY = Strategy(
    validate=_validate,
    fields={
        **{f"involvedObject.{field}": _involved(field) for field in _INVOLVED},
        "reason": _text("reason"),
        "reportingComponent": _text("reportingComponent"),
        "source": _source,
        "type": _text("type"),
    },
    validate_name=names.name_is_path_segment,
    create_on_update=True,
)
