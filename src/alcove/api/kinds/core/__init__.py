"""The core group: strategies by resource."""

from alcove.api.kind import Strategy
from alcove.api.kinds.core import (
    bindings,
    configmaps,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumeclaims,
    persistentvolumes,
    pods,
    podtemplates,
    replicationcontrollers,
    resourcequotas,
    secrets,
    serviceaccounts,
    services,
    tenants,
)

STRATEGIES: dict[str, Strategy] = {
    "bindings": bindings.STRATEGY,
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
    "podtemplates": podtemplates.STRATEGY,
    "replicationcontrollers": replicationcontrollers.STRATEGY,
    "resourcequotas": resourcequotas.STRATEGY,
    "secrets": secrets.STRATEGY,
    "serviceaccounts": serviceaccounts.STRATEGY,
    "services": services.STRATEGY,
    "tenants": tenants.STRATEGY,
}
