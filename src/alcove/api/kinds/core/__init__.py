"""The core group: strategies by resource. Kinds with hardly any rules are here, the others in modules of their name."""

from alcove.api.fields import FieldError
from alcove.api.kind import Strategy
from alcove.api.kinds.core import (
    configmaps,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumeclaims,
    persistentvolumes,
    pods,
    replicationcontrollers,
    resourcequotas,
    secrets,
    services,
    tenants,
)
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.kinds.core.pods.subresources import validate_binding
from alcove.api.objects import Object


def _default_template(template: Object) -> None:
    default_pod_template(template.setdefault("template", {}))


def _validate_template(template: Object) -> list[FieldError]:
    return validate_pod_template(template.get("template", {}), "template")


def _keep_secret_names(account: Object) -> None:
    """Keep only the name of a referenced secret; other fields would be misleading."""
    if secret_refs := account.get("secrets"):
        account["secrets"] = [{"name": secret.get("name", "")} for secret in secret_refs]


STRATEGIES: dict[str, Strategy] = {
    "bindings": Strategy(validate=validate_binding),
    "componentstatuses": Strategy(),
    "configmaps": configmaps.STRATEGY,
    "endpoints": endpoints.STRATEGY,
    "events": events.STRATEGY,
    "limitranges": limitranges.STRATEGY,
    "namespaces": namespaces.STRATEGY,
    "nodes": nodes.STRATEGY,
    "persistentvolumeclaims": persistentvolumeclaims.STRATEGY,
    "persistentvolumes": persistentvolumes.STRATEGY,
    "pods": pods.STRATEGY,
    "podtemplates": Strategy(default=_default_template, validate=_validate_template, counts_generation=True),
    "replicationcontrollers": replicationcontrollers.STRATEGY,
    "resourcequotas": resourcequotas.STRATEGY,
    "secrets": secrets.STRATEGY,
    "serviceaccounts": Strategy(
        prepare_create=_keep_secret_names, prepare_update=lambda new, _old: _keep_secret_names(new)
    ),
    "services": services.STRATEGY,
    "tenants": tenants.STRATEGY,
}
