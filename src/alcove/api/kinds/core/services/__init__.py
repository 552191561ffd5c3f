"""Services: types, addresses, ports, allowed changes.

Addresses and node ports are allocated elsewhere, after `prepare_create` and `prepare_update`.
"""

from alcove.api import names
from alcove.api.kind import Strategy
from alcove.api.kinds.core.services.defaults import (
    default_service,
    prepare_new_service,
    prepare_service_update,
)
from alcove.api.kinds.core.services.validate import (
    validate_service,
    validate_service_status,
    validate_service_update,
)
from alcove.api.objects import get

STRATEGY = Strategy(
    default=default_service,
    validate=validate_service,
    validate_update=validate_service_update,
    validate_status=validate_service_status,
    prepare_create=prepare_new_service,
    prepare_update=prepare_service_update,
    fields={
        "spec.clusterIP": lambda service: str(get(service, "spec", "clusterIP", default="")),
        "spec.type": lambda service: str(get(service, "spec", "type", default="")),
    },
    has_status=True,
    validate_name=names.name_is_dns_label,
    create_on_update=True,
)
