"""Namespaces within a tenant."""

from alcove.api import names
from alcove.api.fields import FieldError
from alcove.api.kind import Strategy
from alcove.api.kinds.core.lifecycles import (
    activate,
    check_finalizers,
    default_phase,
    keep_finalizers,
    phase,
    validate_finalize,
    validate_phase,
)
from alcove.api.objects import Object, metadata

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"


def _default(namespace: Object) -> None:
    """Set the name label, so that every namespace can be selected by its name."""
    meta = metadata(namespace)
    if name := meta.get("name"):
        meta["labels"] = {**meta.get("labels", {}), NAME_LABEL: name}
    default_phase(namespace)


def _validate(namespace: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    check_finalizers(namespace, errors)
    return errors


def _prepare_create(namespace: Object) -> None:
    _default(namespace)  # Again: a generated name was unknown before.
    activate(namespace, FINALIZER)


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_status=validate_phase,
    prepare_create=_prepare_create,
    validate_subresource={"finalize": validate_finalize},
    prepare_update=keep_finalizers,
    fields={"status.phase": phase},
    has_status=True,
    validate_name=names.name_is_dns_label,
)
