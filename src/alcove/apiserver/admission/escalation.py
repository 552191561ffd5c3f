"""Prevents privilege escalation: a role or binding may grant only permissions that its writer has.

A user may write a role if it has all permissions of the role, or the verb `escalate` on it; and a binding if
it has all permissions of its role, or the verb `bind` on the role. The permissions are read from the writer's
tenant; the role of a binding is read from the binding's tenant.
"""

from collections.abc import Callable, Sequence
from functools import partial

from alcove.api import objects
from alcove.api.errors import Forbidden, NotFound
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.computing import LARGE_BYTES, ComputeThreads
from alcove.apiserver.identity import MASTERS
from alcove.apiserver.rbac import aggregate, defaults, escalation, tenantroles
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.escalation import TooManyPairs
from alcove.apiserver.rbac.policy import rules_of
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules

_ROLES = frozenset((defaults.ROLES, defaults.CLUSTER_ROLES))
_BINDINGS = frozenset((defaults.ROLE_BINDINGS, defaults.CLUSTER_ROLE_BINDINGS))
_EVERYTHING = compile_rules(line.to_rule() for line in tenantroles.EVERYTHING)
_HOUSEKEEPING = frozenset(("ownerReferences", "finalizers", "managedFields", "resourceVersion"))


_RULE_BYTES = 128
"""What a rule counts when it is decided whether a check is computed in a thread."""


class Escalation(Plugin):
    def __init__(self, authorizer: Authorizer, threads: ComputeThreads) -> None:
        self._authorizer = authorizer
        self._threads = threads

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and not subresource and (resource in _ROLES or resource in _BINDINGS)

    async def validate(self, attributes: Attributes) -> None:
        identity, obj = attributes.identity, attributes.obj
        is_trusted = identity.tenant == attributes.tenant or identity.tenant == SYSTEM
        if (
            obj is None
            or (is_trusted and MASTERS in identity.groups)
            or _only_housekeeping(obj, attributes.old)
        ):
            return
        if attributes.resource in _ROLES:
            await self._check_role(attributes, obj)
        else:
            await self._check_binding(attributes, obj)

    async def _check_role(self, attributes: Attributes, role: Object) -> None:
        if self._may(attributes, "escalate", attributes.resource.resource, attributes.name):
            return
        rules = role.get("rules") or ()
        await self._check_held(attributes, partial(compile_rules, rules), _rule_bytes(rules))
        if aggregate.is_aggregated(role) or aggregate.is_aggregated(attributes.old or {}):
            # It can aggregate any permission, now or later: only a user with all permissions may write it.
            message = "must have cluster-admin privileges to use the aggregationRule"
            await self._check_held(attributes, lambda: _EVERYTHING, 0, message)

    async def _check_binding(self, attributes: Attributes, binding: Object) -> None:
        ref = binding.get("roleRef") or {}
        kind, name = ref.get("kind", ""), ref.get("name", "")
        resource = defaults.CLUSTER_ROLES if kind == "ClusterRole" else defaults.ROLES
        if self._may(attributes, "bind", resource.resource, name):
            return
        policy = self._authorizer.policy(attributes.tenant)

        def granted() -> tuple[PolicyRule, ...]:
            rules = policy.role_rules(kind, name, attributes.namespace)
            if rules is None:
                raise NotFound.of(resource, name)
            return rules

        await self._check_held(attributes, granted, LARGE_BYTES if policy.is_large else 0)

    def _may(self, attributes: Attributes, verb: str, resource: str, name: str) -> bool:
        group = defaults.ROLES.group
        access = Access(verb, attributes.tenant, group, resource, "", attributes.namespace, name)
        return self._authorizer.authorize(attributes.identity, access).allowed

    async def _check_held(
        self,
        attributes: Attributes,
        granted: Callable[[], tuple[PolicyRule, ...]],
        size_bytes: int,
        message: str = "",
    ) -> None:
        """`size_bytes` says how long it takes to compile the rules that are granted."""
        identity = attributes.identity
        grants = self._authorizer.grants_for(identity, attributes.tenant, attributes.namespace)

        def find() -> str:
            lacking = escalation.missing(rules_of(grants), granted())
            return (message or escalation.refusal(identity, lacking)) if lacking else ""

        size_bytes += _RULE_BYTES * sum(len(grant.rules) for grant in grants)
        try:
            refusal = await self._threads.for_size(identity.tenant, size_bytes, find)
        except TooManyPairs as error:
            raise _refused(attributes, str(error)) from error
        if refusal:
            raise _refused(attributes, refusal)


def _rule_bytes(rules: Sequence[Object]) -> int:
    """About the size of a role's rules."""
    if len(rules) * _RULE_BYTES >= LARGE_BYTES:
        return LARGE_BYTES
    return sum(_RULE_BYTES + 8 * sum(map(len, rule.values())) for rule in rules)


def _refused(attributes: Attributes, message: str) -> Forbidden:
    name = attributes.name or objects.name(attributes.obj or {})
    return Forbidden.of(attributes.resource, name, message)


def _only_housekeeping(new: Object, old: Object | None) -> bool:
    """Whether an update changes only metadata that garbage collection needs to finish a deletion."""
    return old is not None and _without_housekeeping(new) == _without_housekeeping(old)


def _without_housekeeping(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    compared = {field: value for field, value in metadata.items() if field not in _HOUSEKEEPING}
    return {**obj, "metadata": compared}
