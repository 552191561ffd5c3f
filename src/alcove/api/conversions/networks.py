"""Network of `v1` to and from `arktos.futurewei.com/v1`: the same object, but `v1` spells vpcID both ways."""

from alcove.api.objects import Object

STORED = "arktos.futurewei.com/v1"


def to_storage(obj: Object) -> Object:
    """The Arktos form. `vpcID` wins where both spellings are given."""
    converted = {**obj, "apiVersion": STORED}
    spec = obj.get("spec")
    if isinstance(spec, dict) and "vpc-id" in spec:
        vpc_id = spec.get("vpcID") or spec["vpc-id"]
        rest = {field: value for field, value in spec.items() if field != "vpc-id"}
        converted["spec"] = {**rest, "vpcID": vpc_id}
    return converted


def from_storage(obj: Object) -> Object:
    return {**obj, "apiVersion": "v1"}
