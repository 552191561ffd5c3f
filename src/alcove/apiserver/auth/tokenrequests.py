"""TokenRequest: `POST …/serviceaccounts/NAME/token` issues a token of a service account."""

import copy
from collections.abc import Callable

from msgspec import Struct

from alcove.api import fields, meta, objects
from alcove.api.errors import BadRequest, Conflict, Invalid, NotFound
from alcove.api.ids import SYSTEM, GroupResource, GroupVersionKind, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.apiserver.reader import CacheReader

GROUP, KIND = "authentication.k8s.io", "TokenRequest"
LIFETIME_SECONDS_DEFAULT = 3600
LIFETIME_SECONDS_MIN = 600
LIFETIME_SECONDS_MAX = 365 * 24 * 3600

INJECTED_LIFETIME_SECONDS = 3607
"""The lifetime that clients request for a pod's projected volume. As in Kubernetes, such a token is valid for
a year (but no longer than its pod), for programs that never reread it, and counts as stale after the hour."""


class _Binding(Struct, frozen=True):
    uid: str = ""
    pod: TokenObjectRef | None = None
    secret: TokenObjectRef | None = None
    node: TokenObjectRef | None = None


class TokenRequests:
    def __init__(self, reader: CacheReader, tokens: Tokens, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._tokens = tokens
        self._clock = clock

    def create(
        self, tenant: TenantId, namespace: str, name: str, request: Object, warnings: list[str]
    ) -> Object:
        """The request with its token in `status`. Adds to `warnings`; raises ApiError."""
        account = self._reader.get(tenant, SERVICE_ACCOUNTS, namespace, name)
        if account is None:
            raise NotFound.of(SERVICE_ACCOUNTS, name)
        response = copy.deepcopy(request)
        self._check_metadata(response, namespace, name, account)
        spec: Object = response.setdefault("spec", {})
        lifetime = _lifetime(spec, name, warnings)
        binding = self._binding(tenant, namespace, name, spec.get("boundObjectRef"))
        default = self._tokens.audiences(tenant)
        audiences: list[str] = spec.get("audiences") or default
        spec["audiences"], spec["expirationSeconds"] = audiences, lifetime
        now = self._clock()
        injected = binding.pod is not None and lifetime == INJECTED_LIFETIME_SECONDS and audiences == default
        bound = BoundObject(
            tenant=tenant,
            namespace=namespace,
            serviceaccount=TokenObjectRef(name, account["metadata"]["uid"]),
            pod=binding.pod,
            secret=binding.secret,
            node=binding.node,
            warnafter=int(now) + lifetime if injected else None,
        )
        token = self._tokens.issue(bound, audiences, LIFETIME_SECONDS_MAX if injected else lifetime)
        response["metadata"]["creationTimestamp"] = meta.format_time(now)
        response["status"] = {"token": token, "expirationTimestamp": meta.format_time(int(now) + lifetime)}
        return response

    def _check_metadata(self, request: Object, namespace: str, name: str, account: Object) -> None:
        metadata, uid = objects.metadata(request), account["metadata"]["uid"]
        errors = [
            fields.invalid(
                f"metadata.{field}", metadata[field], f"must be the service account's {field}, or left out"
            )
            for field, expected in (("name", name), ("namespace", namespace))
            if metadata.get(field) not in (None, "", expected)
        ]
        if errors:
            raise Invalid.of(GROUP, KIND, name, errors)
        if metadata.get("uid") not in (None, "", uid):
            message = f"the UID in the request ({metadata['uid']}) is not the service account's ({uid})"
            raise Conflict.of(GroupResource(GROUP, KIND), name, message)
        metadata.update(name=name, namespace=namespace, uid=uid)

    def _binding(self, tenant: TenantId, namespace: str, account: str, ref: Object | None) -> _Binding:
        if not ref:
            return _Binding()
        kind = GroupVersionKind.parse(ref.get("apiVersion") or "v1", ref.get("kind") or "")
        name = ref.get("name") or ""
        # Nodes belong to ring0: a token request must not reveal to a tenant whether one exists.
        if kind.group == "" and kind.kind == "Pod":
            binding = self._pod_binding(tenant, namespace, account, name)
        elif kind.group == "" and kind.kind == "Secret":
            secret = self._reference(tenant, SECRETS, namespace, name)
            binding = _Binding(secret.uid, secret=secret)
        elif kind.group == "" and kind.kind == "Node" and tenant == SYSTEM:
            node = self._reference(SYSTEM, NODES, "", name)
            binding = _Binding(node.uid, node=node)
        else:
            raise BadRequest(f"cannot bind token to object of type {kind.api_version}, Kind={kind.kind}")
        if ref.get("uid") and ref["uid"] != binding.uid:
            message = f"the UID in the bound object reference ({ref['uid']}) is not that of the object"
            raise Conflict.of(GroupResource(kind.group, kind.kind), name, message)
        return binding

    def _pod_binding(self, tenant: TenantId, namespace: str, account: str, name: str) -> _Binding:
        reference = self._reference(tenant, PODS, namespace, name)
        pod = self._reader.get(tenant, PODS, namespace, name) or {}
        if objects.get(pod, "spec", "serviceAccountName") != account:
            raise BadRequest(f'cannot bind token for serviceaccount "{account}" to a pod of another one')
        node_name = objects.get(pod, "spec", "nodeName")
        if not node_name:
            return _Binding(reference.uid, pod=reference)
        node = self._reader.get(SYSTEM, NODES, "", node_name)
        uid = node["metadata"]["uid"] if node else ""
        return _Binding(reference.uid, pod=reference, node=TokenObjectRef(node_name, uid))

    def _reference(
        self, tenant: TenantId, resource: GroupResource, namespace: str, name: str
    ) -> TokenObjectRef:
        obj = self._reader.get(tenant, resource, namespace, name)
        if obj is None:
            raise NotFound.of(resource, name)
        return TokenObjectRef(name, obj["metadata"]["uid"])


def _lifetime(spec: Object, name: str, warnings: list[str]) -> int:
    requested = spec.get("expirationSeconds")
    if requested is None:
        return LIFETIME_SECONDS_DEFAULT
    if not isinstance(requested, int) or requested < LIFETIME_SECONDS_MIN or requested > 1 << 32:
        message = "must be between 600 seconds (10 minutes) and 2^32 seconds"
        raise Invalid.of(GROUP, KIND, name, [fields.invalid("spec.expirationSeconds", requested, message)])
    if requested > LIFETIME_SECONDS_MAX:
        warnings.append(
            f"requested expiration of {requested} seconds shortened to {LIFETIME_SECONDS_MAX} seconds"
        )
        return LIFETIME_SECONDS_MAX
    return requested
