"""Whether an APIService's service has endpoints."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.apiservices import without_endpoints

REFERENCE = {"namespace": "n", "name": "s", "port": 443}
SERVICE: Object = {"spec": {"ports": [{"name": "https", "port": 443}, {"name": "other", "port": 80}]}}


def slice_(port_name: str = "https", ready: bool = True) -> Object:
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}
    return {"ports": [{"name": port_name, "port": 8443}], "endpoints": [endpoint]}


@pytest.mark.parametrize(
    ("service", "slices", "reason", "message"),
    [
        (None, [], "ServiceNotFound", 'service/s in "n" is not present'),
        ({"spec": {"ports": [{"port": 80}]}}, [slice_()], "ServicePortError", 'service/s in "n" is not listening on port 443'),
        (SERVICE, [], "EndpointsNotFound", 'cannot find endpoints for service/s in "n"'),
        (SERVICE, [slice_(ready=False)], "MissingEndpoints", 'endpoints for service/s in "n" have no addresses with port name "https"'),
        (SERVICE, [slice_("other")], "MissingEndpoints", 'endpoints for service/s in "n" have no addresses with port name "https"'),
    ],
)  # fmt: skip
def test_what_is_missing(service: Object | None, slices: list[Object], reason: str, message: str) -> None:
    condition = without_endpoints(REFERENCE, service, slices)
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == (False, reason, message)


@pytest.mark.parametrize(
    ("service", "slices"),
    [
        (SERVICE, [slice_(ready=False), slice_()]),
        ({"spec": {"ports": [{"port": 443}]}}, [slice_("")]),
        ({"spec": {"type": "ExternalName", "externalName": "x.example.com"}}, []),
    ],
)
def test_nothing_is_missing(service: Object, slices: list[Object]) -> None:
    assert without_endpoints(REFERENCE, service, slices) is None
