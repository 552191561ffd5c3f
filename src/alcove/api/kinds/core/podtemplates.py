"""PodTemplates as objects."""

from alcove.api.fields import FieldError
from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.objects import Object


def _default(template: Object) -> None:
    default_pod_template(template.setdefault("template", {}))


def _validate(template: Object) -> list[FieldError]:
    return validate_pod_template(template.get("template", {}), "template")


STRATEGY = Strategy(default=_default, validate=_validate, counts_generation=True)
