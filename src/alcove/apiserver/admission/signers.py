"""Who may speak for a signer: attest its trust bundles, and answer requests for certificates of pods."""

from collections.abc import Callable

from alcove.api import meta, objects
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource
from alcove.api.resources import CLUSTER_TRUST_BUNDLES, POD_CERTIFICATE_REQUESTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.rbac.access import Access
from alcove.apiserver.rbac.authorize import Authorizer

CLOCK_SKEW_SECONDS = 300.0
"""By how much the beginning of a certificate may differ from this server's time."""


class Signers(Plugin):
    def __init__(self, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        self._authorizer = authorizer
        self._clock = clock

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == CLUSTER_TRUST_BUNDLES:
            return operation in (Operation.CREATE, Operation.UPDATE)
        is_answer = operation is Operation.UPDATE and subresource == "status"
        return resource == POD_CERTIFICATE_REQUESTS and is_answer

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj or {}, attributes.old or {}
        if attributes.resource == CLUSTER_TRUST_BUNDLES:
            signer = objects.get(new, "spec", "signerName", default="")
            if signer and new.get("spec") != old.get("spec"):
                self._require(attributes, "attest", signer)
        elif (new.get("status") or {}) != (old.get("status") or {}):
            self._require(attributes, "sign", objects.get(old, "spec", "signerName", default=""))
            self._check_time(attributes, objects.get(new, "status", "notBefore", default=""))

    def _require(self, attributes: Attributes, verb: str, signer: str) -> None:
        """Requires the verb on the signer, by its name or by its domain (`example.com/*`). Raises
        Forbidden."""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            access = Access(verb, attributes.tenant, attributes.resource.group, "signers", name=name)
            if self._authorizer.authorize(attributes.identity, access).allowed:
                return
        message = f'user not permitted to {verb} for signerName "{signer}"'
        raise Forbidden.of(attributes.resource, attributes.name, message)

    def _check_time(self, attributes: Attributes, begin: str) -> None:
        if begin and abs(meta.parse_time(begin) - self._clock()) >= CLOCK_SKEW_SECONDS:
            message = "status.notBefore must be set to within 5 minutes of the API server's current time"
            raise Forbidden.of(attributes.resource, attributes.name, message)
