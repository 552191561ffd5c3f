"""certificates.k8s.io: requests for certificates, of clients and of pods, and bundles of trusted authorities."""

from alcove.api.kind import Strategy
from alcove.api.kinds.certificates import podrequests, signingrequests, trustbundles

STRATEGIES: dict[str, Strategy] = {
    **signingrequests.STRATEGIES,
    **podrequests.STRATEGIES,
    **trustbundles.STRATEGIES,
}
