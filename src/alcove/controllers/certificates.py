"""Certificate requests: nodes' own certificates are approved by policy, old requests are removed.

The server refuses requests that its signers would not sign when they are made, and signs in the write
that approves (its key never leaves it). What is left here: to ask whether the requester may have it
without a person's approval, and to tidy up.
"""

from __future__ import annotations

import base64

from alcove.api import meta, objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey
from alcove.client.resources import CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_as_known

NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
"""API servers know a node by its certificate's subject: whichever addresses it names, it can be no other's."""

PENDING_SECONDS_MAX = 24 * 3600.0
SETTLED_SECONDS_MAX = 3600.0
"""A request that was approved, denied or failed is of interest to its maker for this long."""


class CertificateApproval(Controller):
    """Only ring0's: nodes are ring0's."""

    name = "certificate-approval"
    resource = CERTIFICATE_SIGNING_REQUESTS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = self.mirror(CERTIFICATE_SIGNING_REQUESTS)
        self.on(self._requests)

    async def reconcile(self, key: ObjectKey) -> Result:
        request = self._requests.get(key)
        if request is None or key.tenant != SYSTEM or settled(request):
            return DONE
        signer = request["spec"].get("signerName")
        if signer not in (NODE_CLIENT, NODE_SERVING):
            return DONE
        desired = "selfnodeclient" if is_self_renewal(request) else "nodeclient"
        if signer == NODE_SERVING and desired != "selfnodeclient":
            return DONE  # A node serves in its own name, and asks for that itself.
        if await self._is_allowed(key, request, desired):
            whose = "a node's own" if desired == "selfnodeclient" else "a node's"
            kind = "serving" if signer == NODE_SERVING else "client"
            message = f"The requester may have {whose} {kind} certificate ({desired})."
            await self._approve(key, request, message)
        return DONE

    async def _is_allowed(self, key: ObjectKey, request: Object, subresource: str) -> bool:
        spec = request["spec"]
        group = CERTIFICATE_SIGNING_REQUESTS.group
        review = {
            "spec": {
                "user": spec.get("username", ""),
                "uid": spec.get("uid", ""),
                "groups": spec.get("groups") or [],
                "extra": spec.get("extra") or {},
                "resourceAttributes": {
                    "group": group,
                    "resource": CERTIFICATE_SIGNING_REQUESTS.resource,
                    "subresource": subresource,
                    "verb": "create",
                },
            }
        }
        answer = await self.client(key).create(key.tenant, SUBJECT_ACCESS_REVIEWS, review)
        return bool(objects.get(answer, "status", "allowed"))

    async def _approve(self, key: ObjectKey, request: Object, message: str) -> None:
        now = meta.format_time(self.clock())
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": message,
            "lastUpdateTime": now,
        }
        status = request.setdefault("status", {})
        status["conditions"] = [*(status.get("conditions") or ()), approved]
        await self.client(key).update(
            key.tenant, CERTIFICATE_SIGNING_REQUESTS, request, subresource="approval"
        )


class CertificateCleaning(Controller):
    """Requests are for a moment; certificates live without them."""

    name = "certificate-cleaning"
    resource = CERTIFICATE_SIGNING_REQUESTS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = self.mirror(CERTIFICATE_SIGNING_REQUESTS)
        self.on(self._requests)

    async def reconcile(self, key: ObjectKey) -> Result:
        request = self._requests.get(key)
        if request is None:
            return DONE
        left = due(request) - self.clock()
        if left > 0:
            return Result(after_seconds=left)
        await delete_as_known(self.client(key), CERTIFICATE_SIGNING_REQUESTS, key, request["metadata"])
        return DONE


def settled(request: Object) -> list[Object]:
    """The conditions that say what became of it."""
    conditions = objects.get(request, "status", "conditions", default=[])
    return [each for each in conditions if each.get("type") in ("Approved", "Denied", "Failed")]


def due(request: Object) -> float:
    """When it may be removed, in epoch seconds."""
    made = meta.parse_time(request["metadata"]["creationTimestamp"])
    times = [each.get("lastUpdateTime") or each.get("lastTransitionTime") for each in settled(request)]
    if not times:
        return made + PENDING_SECONDS_MAX
    return max(meta.parse_time(time) if time else made for time in times) + SETTLED_SECONDS_MAX


def is_self_renewal(request: Object) -> bool:
    """A node asks for its own next certificate."""
    # Imported here: nodes join rarely, and the library takes more memory than all mirrors of a small cluster.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parsed = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return [name.value for name in names] == [request["spec"].get("username")]
