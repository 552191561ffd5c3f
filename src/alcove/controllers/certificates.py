"""Certificate signing requests: approves node certificates by policy and removes old requests.

The API server rejects a request that its signers would not sign when the request is created, and signs in
the write that approves it (the signing key never leaves the server). The controllers here only check
whether a requester may have a certificate without an operator's approval, and clean up.
"""

from __future__ import annotations

import base64

from alcove.api import meta, objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey
from alcove.client.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    POD_CERTIFICATE_REQUESTS,
    SUBJECT_ACCESS_REVIEWS,
)
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged

NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
"""The API server signs it only for the name and addresses of the requesting node."""

PENDING_SECONDS_MAX = 24 * 3600.0
SETTLED_SECONDS_MAX = 3600.0
"""How long a request that was approved, denied or failed is kept for its requester."""


POD_REQUEST_SECONDS_MAX = 15 * 60.0
"""How long a request for a certificate of a pod is kept."""


class CertificateRequests(Controller):
    """Base class: reconciles each request when it changes."""

    resource = CERTIFICATE_SIGNING_REQUESTS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = self.mirror(CERTIFICATE_SIGNING_REQUESTS)
        self.on(self._requests)


class CertificateApproval(CertificateRequests):
    """Approves requests in ring0 only, because nodes belong to ring0."""

    name = "certificate-approval"
    is_ring0 = True

    async def reconcile(self, key: ObjectKey) -> Result:
        request = self._requests.get(key)
        if request is None or key.tenant != SYSTEM or final_conditions(request):
            return DONE
        signer = request["spec"].get("signerName")
        if signer not in (NODE_CLIENT, NODE_SERVING):
            return DONE
        subresource = "selfnodeclient" if is_self_renewal(request) else "nodeclient"
        if signer == NODE_SERVING and subresource != "selfnodeclient":
            return DONE  # A serving certificate is approved only for the node that requests it.
        if await self._is_allowed(key, request, subresource):
            kind = "serving" if signer == NODE_SERVING else "client"
            message = f"Auto approving node {kind} certificate after SubjectAccessReview ({subresource})."
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
        response = await self.client(key).create(key.tenant, SUBJECT_ACCESS_REVIEWS, review)
        return bool(objects.get(response, "status", "allowed"))

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


class CertificateCleaning(CertificateRequests):
    """Deletes old requests; issued certificates stay valid without them."""

    name = "certificate-cleaning"

    async def reconcile(self, key: ObjectKey) -> Result:
        request = self._requests.get(key)
        if request is None:
            return DONE
        remaining_seconds = removal_time(request) - self.clock()
        if remaining_seconds > 0:
            return Result(after_seconds=remaining_seconds)
        await delete_if_unchanged(self.client(key), CERTIFICATE_SIGNING_REQUESTS, key, request["metadata"])
        return DONE


class PodCertificateCleaning(Controller):
    """Deletes old requests for certificates of pods: whoever asked has the answer, or asks again."""

    name = "pod-certificate-cleaning"
    resource = POD_CERTIFICATE_REQUESTS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = self.mirror(POD_CERTIFICATE_REQUESTS, metadata_only=True)
        self.on(self._requests)

    async def reconcile(self, key: ObjectKey) -> Result:
        request = self._requests.get(key)
        if request is None:
            return DONE
        remaining_seconds = pod_request_removal_time(request) - self.clock()
        if remaining_seconds > 0:
            return Result(after_seconds=remaining_seconds)
        await delete_if_unchanged(self.client(key), POD_CERTIFICATE_REQUESTS, key, request["metadata"])
        return DONE


def pod_request_removal_time(request: Object) -> float:
    """When a request for a certificate of a pod may be deleted, answered or not, in epoch seconds."""
    created: str = request["metadata"]["creationTimestamp"]
    return meta.parse_time(created) + POD_REQUEST_SECONDS_MAX


def final_conditions(request: Object) -> list[Object]:
    """The conditions Approved, Denied and Failed of the request; empty while it is pending."""
    conditions = objects.get(request, "status", "conditions", default=[])
    return [each for each in conditions if each.get("type") in ("Approved", "Denied", "Failed")]


def removal_time(request: Object) -> float:
    """When the request may be deleted, in epoch seconds."""
    created = meta.parse_time(request["metadata"]["creationTimestamp"])
    times = [
        each.get("lastUpdateTime") or each.get("lastTransitionTime") for each in final_conditions(request)
    ]
    if not times:
        return created + PENDING_SECONDS_MAX
    return max(meta.parse_time(time) if time else created for time in times) + SETTLED_SECONDS_MAX


def is_self_renewal(request: Object) -> bool:
    """Whether the requested common name is the requester's user name: a node renews its certificate."""
    # Imported here: nodes join rarely, and the library takes more memory than all mirrors of a small cluster.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parsed = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return [name.value for name in names] == [request["spec"].get("username")]
