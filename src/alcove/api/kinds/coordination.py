"""coordination.k8s.io: leases, by which leaders and nodes prove that they are alive."""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import ABOVE_ZERO, named, not_negative, one_of
from alcove.api.objects import Object

LEASE_STRATEGIES = ("OldestEmulationVersion",)


def validate_lease(lease: Object) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("leaseDurationSeconds", 1) <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], ABOVE_ZERO))
    errors += not_negative(spec, "spec", "leaseTransitions")
    strategy = spec.get("strategy", "")
    if "/" in strategy:
        errors += named(strategy, names.qualified_name, "spec.strategy")
    elif "strategy" in spec:
        errors += one_of(strategy, LEASE_STRATEGIES, "spec.strategy")
    if spec.get("preferredHolder") and not strategy:
        message = "may only be specified if `strategy` is defined"
        errors.append(forbidden("spec.preferredHolder", message))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "leases": Strategy(validate=validate_lease, create_on_update=True, unconditional_update=False),
}
