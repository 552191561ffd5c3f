"""Prevents privilege escalation: a role or binding may grant only permissions that its writer has.

A user may write a role if it has all permissions of the role, or the verb `escalate` on it; and a binding if
it has all permissions of its role, or the verb `bind` on the role. The permissions are read from the writer's
tenant; the role of a binding is read from the binding's tenant.
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
        is_trusted = identity.tenant == attributes.tenant or identity.tenant == SYSTEM
        if (
            obj is None
            or (is_trusted and MASTERS in identity.groups)
            or _only_housekeeping(obj, attributes.old)
        ):
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
            # It can aggregate any permission, now or later: only a user with all permissions may write it.
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

    def _check_held(self, attributes: Attributes, granted: tuple[PolicyRule, ...], message: str = "") -> None:
        identity = attributes.identity
        held = self._authorizer.rules_for(identity, attributes.tenant, attributes.namespace)
        try:
            missing_rules = escalation.missing(held, granted)
        except TooManyPairs as error:
            raise _refused(attributes, str(error)) from error
        if missing_rules:
            raise _refused(attributes, message or escalation.refusal(identity, missing_rules))


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
