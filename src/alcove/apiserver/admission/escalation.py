"""Privilege escalation: a role or binding gives only what its writer holds.

A role may be written by who holds its rules, or the verb `escalate` on it; a binding by who holds the
rules of its role, or the verb `bind` on the role. The rights are the writer's own, read from the
writer's tenant; the role that a binding names is read from the tenant the binding is in.
"""

from alcove.api import objects
from alcove.api.errors import Forbidden, NotFound
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.identity import MASTERS
from alcove.apiserver.rbac import aggregate, defaults, escalation, tenantroles
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.escalation import TooManyPairs
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules

_ROLES = frozenset((defaults.ROLES, defaults.CLUSTER_ROLES))
_BINDINGS = frozenset((defaults.ROLE_BINDINGS, defaults.CLUSTER_ROLE_BINDINGS))
_EVERYTHING = compile_rules(line.to_rule() for line in tenantroles.EVERYTHING)
_HOUSEKEEPING = frozenset(("ownerReferences", "finalizers", "managedFields", "resourceVersion"))


class Escalation(Plugin):
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and not subresource and (resource in _ROLES or resource in _BINDINGS)

    async def validate(self, attributes: Attributes) -> None:
        identity, obj = attributes.identity, attributes.obj
        own = identity.tenant == attributes.tenant or identity.tenant == SYSTEM
        if obj is None or (own and MASTERS in identity.groups) or _only_housekeeping(obj, attributes.old):
            return
        if attributes.resource in _ROLES:
            self._check_role(attributes, obj)
        else:
            self._check_binding(attributes, obj)

    def _check_role(self, attributes: Attributes, role: Object) -> None:
        if self._may(attributes, "escalate", attributes.resource.resource, attributes.name):
            return
        self._check_held(attributes, compile_rules(role.get("rules")))
        if aggregate.is_aggregated(role) or aggregate.is_aggregated(attributes.old or {}):
            # It can gather anything, now or later: only who may do everything may write it.
            self._check_held(
                attributes, _EVERYTHING, "must have cluster-admin privileges to use the aggregationRule"
            )

    def _check_binding(self, attributes: Attributes, binding: Object) -> None:
        ref = binding.get("roleRef") or {}
        kind, name = ref.get("kind", ""), ref.get("name", "")
        resource = defaults.CLUSTER_ROLES if kind == "ClusterRole" else defaults.ROLES
        if self._may(attributes, "bind", resource.resource, name):
            return
        rules = self._authorizer.policy(attributes.tenant).role_rules(kind, name, attributes.namespace)
        if rules is None:
            raise NotFound.of(resource, name)
        self._check_held(attributes, rules)

    def _may(self, attributes: Attributes, verb: str, resource: str, name: str) -> bool:
        group = defaults.ROLES.group
        access = Access(verb, attributes.tenant, group, resource, "", attributes.namespace, name)
        return self._authorizer.authorize(attributes.identity, access).allowed

    def _check_held(self, attributes: Attributes, wanted: tuple[PolicyRule, ...], why: str = "") -> None:
        identity = attributes.identity
        held = self._authorizer.rules_for(identity, attributes.tenant, attributes.namespace)
        try:
            lacking = escalation.missing(held, wanted)
        except TooManyPairs as error:
            raise _refused(attributes, str(error)) from error
        if lacking:
            raise _refused(attributes, why or escalation.refusal(identity, lacking))


def _refused(attributes: Attributes, why: str) -> Forbidden:
    name = attributes.name or objects.name(attributes.obj or {})
    return Forbidden.of(attributes.resource, name, why)


def _only_housekeeping(new: Object, old: Object | None) -> bool:
    """Whether an update changes nothing but what garbage collection needs to finish a deletion."""
    return old is not None and _without_housekeeping(new) == _without_housekeeping(old)


def _without_housekeeping(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    kept = {field: value for field, value in metadata.items() if field not in _HOUSEKEEPING}
    return {**obj, "metadata": kept}
