"""admissionregistration.k8s.io: webhooks and CEL policies that are evaluated on every write."""

from alcove.api.kind import Strategy
from alcove.api.kinds.admissionregistration import bindings, policies, webhooks

STRATEGIES: dict[str, Strategy] = {
    **webhooks.STRATEGIES,
    **policies.STRATEGIES,
    **bindings.STRATEGIES,
}
