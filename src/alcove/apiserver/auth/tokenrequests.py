"""TokenRequest: `POST …/serviceaccounts/NAME/token`, the way every service account gets its tokens."""

import copy
from collections.abc import Callable

from msgspec import Struct

from alcove.api import fields, meta, objects
from alcove.api.errors import BadRequest, Conflict, Invalid, NotFound
from alcove.api.ids import SYSTEM, GroupResource, GroupVersionKind, TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth.tokens import (
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    BoundObject,
    TokenObjectRef,
    Tokens,
)
from alcove.apiserver.reader import CacheReader

GROUP, KIND = "authentication.k8s.io", "TokenRequest"
LIFETIME_SECONDS_DEFAULT = 3600
LIFETIME_SECONDS_MIN = 600
LIFETIME_SECONDS_MAX = 365 * 24 * 3600

INJECTED_LIFETIME_SECONDS = 3607
"""What clients ask for on behalf of a pod's own volume. Such a token lives on, as long as its pod, for
programs that never read it anew, and counts as stale after the hour: as in Kubernetes."""


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
        answer = copy.deepcopy(request)
        self._check_metadata(answer, namespace, name, account)
        spec: Object = answer.setdefault("spec", {})
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
        answer["metadata"]["creationTimestamp"] = meta.format_time(now)
        answer["status"] = {"token": token, "expirationTimestamp": meta.format_time(int(now) + lifetime)}
        return answer

    def _check_metadata(self, request: Object, namespace: str, name: str, account: Object) -> None:
        given, uid = objects.metadata(request), account["metadata"]["uid"]
        faults = [
            fields.invalid(
                f"metadata.{field}", given[field], f"must be the service account's {field}, or left out"
            )
            for field, right in (("name", name), ("namespace", namespace))
            if given.get(field) not in (None, "", right)
        ]
        if faults:
            raise Invalid.of(GROUP, KIND, name, faults)
        if given.get("uid") not in (None, "", uid):
            why = f"the UID in the request ({given['uid']}) is not the service account's ({uid})"
            raise Conflict.of(GroupResource(GROUP, KIND), name, why)
        given.update(name=name, namespace=namespace, uid=uid)

    def _binding(self, tenant: TenantId, namespace: str, account: str, ref: Object | None) -> _Binding:
        if not ref:
            return _Binding()
        kind = GroupVersionKind.parse(ref.get("apiVersion") or "v1", ref.get("kind") or "")
        name = ref.get("name") or ""
        # Nodes belong to ring0: to a tenant, whether one exists is no business of a token request.
        if kind.group == "" and kind.kind == "Pod":
            binding = self._pod_binding(tenant, namespace, account, name)
        elif kind.group == "" and kind.kind == "Secret":
            secret = self._found(tenant, SECRETS, namespace, name)
            binding = _Binding(secret.uid, secret=secret)
        elif kind.group == "" and kind.kind == "Node" and tenant == SYSTEM:
            node = self._found(SYSTEM, NODES, "", name)
            binding = _Binding(node.uid, node=node)
        else:
            raise BadRequest(f"cannot bind token to object of type {kind.api_version}, Kind={kind.kind}")
        if ref.get("uid") and ref["uid"] != binding.uid:
            why = f"the UID in the bound object reference ({ref['uid']}) is not that of the object"
            raise Conflict.of(GroupResource(kind.group, kind.kind), name, why)
        return binding

    def _pod_binding(self, tenant: TenantId, namespace: str, account: str, name: str) -> _Binding:
        reference = self._found(tenant, PODS, namespace, name)
        pod = self._reader.get(tenant, PODS, namespace, name) or {}
        if objects.get(pod, "spec", "serviceAccountName") != account:
            raise BadRequest(f'cannot bind token for serviceaccount "{account}" to a pod of another one')
        node_name = objects.get(pod, "spec", "nodeName")
        if not node_name:
            return _Binding(reference.uid, pod=reference)
        node = self._reader.get(SYSTEM, NODES, "", node_name)
        uid = node["metadata"]["uid"] if node else ""
        return _Binding(reference.uid, pod=reference, node=TokenObjectRef(node_name, uid))

    def _found(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> TokenObjectRef:
        found = self._reader.get(tenant, resource, namespace, name)
        if found is None:
            raise NotFound.of(resource, name)
        return TokenObjectRef(name, found["metadata"]["uid"])


def _lifetime(spec: Object, name: str, warnings: list[str]) -> int:
    asked = spec.get("expirationSeconds")
    if asked is None:
        return LIFETIME_SECONDS_DEFAULT
    if not isinstance(asked, int) or asked < LIFETIME_SECONDS_MIN or asked > 1 << 32:
        message = "must be between 600 seconds (10 minutes) and 2^32 seconds"
        raise Invalid.of(GROUP, KIND, name, [fields.invalid("spec.expirationSeconds", asked, message)])
    if asked > LIFETIME_SECONDS_MAX:
        warnings.append(
            f"requested expiration of {asked} seconds shortened to {LIFETIME_SECONDS_MAX} seconds"
        )
        return LIFETIME_SECONDS_MAX
    return asked
