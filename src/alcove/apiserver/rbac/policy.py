"""A tenant's roles and bindings, compiled: who holds which rules, and why.

A policy is true for one generation of the tenant's RBAC objects and thrown away with it. Cluster-wide
bindings are compiled at once, a namespace's when it is first asked about, so a change costs what is
used again, not what exists. Verdicts are remembered, up to a bound.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth import serviceaccounts
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules, quote
from alcove.apiserver.reader import CacheReader

VERDICTS_MAX = 512
NAMESPACES_MAX = 1024


class AccessDecision(Struct, frozen=True):
    allowed: bool
    reason: str = ""
    """Which binding allowed it; or, when denied, what may be broken (a binding to a missing role)."""


class RbacQuery(Struct, frozen=True):
    """What is asked of a policy, but for the object's name. `namespace` "" asks cluster-wide bindings only.
    A `path` makes it a question about a path that is no resource."""

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    path: str = ""


class RbacVerdict(Struct, frozen=True):
    """The answer: for objects of every name, or by name."""

    always: AccessDecision | None
    by_name: dict[str, AccessDecision]
    otherwise: AccessDecision


class RbacGrant(Struct, frozen=True):
    """What one binding gives one subject."""

    rules: tuple[PolicyRule, ...]
    reason: str
    broken: str = ""


class _Index:
    """Grants by subject."""

    __slots__ = ("_groups", "_users")

    def __init__(self) -> None:
        self._users: dict[str, list[RbacGrant]] = {}
        self._groups: dict[str, list[RbacGrant]] = {}

    def add(self, kind: str, name: str, grant: RbacGrant) -> None:
        (self._groups if kind == "Group" else self._users).setdefault(name, []).append(grant)

    def grants(self, user: str, groups: Iterable[str]) -> Iterator[RbacGrant]:
        yield from self._users.get(user, ())
        for group in groups:
            yield from self._groups.get(group, ())

    def __bool__(self) -> bool:
        return bool(self._users or self._groups)


class RbacPolicy:
    def __init__(self, tenant: TenantId, reader: CacheReader) -> None:
        self._tenant = tenant
        self._reader = reader
        self._cluster_rules: dict[str, tuple[PolicyRule, ...] | None] = {}
        self._namespaces: dict[str, _Index] = {}
        self.verdicts: dict[RbacQuery, RbacVerdict] = {}
        stored = reader.list(tenant, defaults.CLUSTER_ROLE_BINDINGS)
        bindings = defaults.with_built_in(tenant, defaults.CLUSTER_ROLE_BINDINGS, stored)
        self._cluster = self._index(bindings.values(), "")

    def judge(self, question: RbacQuery) -> RbacVerdict:
        """The verdict, remembered for whoever asks again through `verdicts`."""
        if len(self.verdicts) >= VERDICTS_MAX:
            self.verdicts.clear()
        verdict = self.verdicts[question] = self._judge(question)
        return verdict

    def _judge(self, question: RbacQuery) -> RbacVerdict:
        by_name: dict[str, AccessDecision] = {}
        broken = []
        for grant in self.grants(question.user, question.groups, question.namespace):
            if grant.broken:
                broken.append(grant.broken)
            for rule in grant.rules:
                if not _speaks_of(rule, question):
                    continue
                decision = AccessDecision(True, grant.reason)
                if not rule.names or question.path:
                    return RbacVerdict(decision, {}, decision)
                for name in rule.names:
                    by_name.setdefault(name, decision)
        message = f"RBAC: {_joined(broken)}" if broken else ""
        return RbacVerdict(None, by_name, AccessDecision(False, message))

    def grants(self, user: str, groups: Iterable[str], namespace: str) -> Iterator[RbacGrant]:
        """Everything given to a subject cluster-wide, and in `namespace` unless it is ""."""
        yield from self._cluster.grants(user, groups)
        if namespace:
            yield from self._namespace(namespace).grants(user, groups)

    def binds_in(self, namespace: str) -> bool:
        """Whether anything is bound in this namespace at all."""
        return bool(namespace) and bool(self._namespace(namespace))

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role, None if there is no such role."""
        if kind == "ClusterRole":
            return self._cluster_role_rules(name)
        found = self._reader.get(self._tenant, defaults.ROLES, namespace, name)
        return None if found is None else compile_rules(found.get("rules"))

    def _namespace(self, namespace: str) -> _Index:
        index = self._namespaces.get(namespace)
        if index is None:
            if len(self._namespaces) >= NAMESPACES_MAX:
                self._namespaces.clear()
            stored = self._reader.list(self._tenant, defaults.ROLE_BINDINGS, namespace)
            index = self._namespaces[namespace] = self._index(stored, namespace)
        return index

    def _index(self, bindings: Iterable[Object], namespace: str) -> _Index:
        index = _Index()
        for binding in bindings:
            ref = binding.get("roleRef") or {}
            rules = self.role_rules(ref.get("kind", ""), ref.get("name", ""), namespace)
            broken = "" if rules is not None else _missing(ref)
            for subject in binding.get("subjects") or ():
                name = _subject_name(subject, namespace)
                if name:
                    reason = f"RBAC: allowed by {_described(binding, ref, subject, namespace)}"
                    index.add(subject.get("kind", ""), name, RbacGrant(rules or (), reason, broken))
        return index

    def _cluster_role_rules(self, name: str) -> tuple[PolicyRule, ...] | None:
        if name not in self._cluster_rules:
            self._cluster_rules[name] = self._read_cluster_role(name)
        return self._cluster_rules[name]

    def _read_cluster_role(self, name: str) -> tuple[PolicyRule, ...] | None:
        role = self._reader.get(self._tenant, defaults.CLUSTER_ROLES, "", name)
        if role is None:
            role = defaults.built_in(self._tenant, defaults.CLUSTER_ROLES).get(name)
        if role is None:
            return None
        if not aggregate.is_aggregated(role):
            return compile_rules(role.get("rules"))
        stored = self._reader.list(self._tenant, defaults.CLUSTER_ROLES)
        return aggregate.aggregate(role, defaults.with_built_in(self._tenant, defaults.CLUSTER_ROLES, stored))


def _speaks_of(rule: PolicyRule, question: RbacQuery) -> bool:
    if question.path:
        return rule.matches_path(question.verb, question.path)
    return rule.matches(question.verb, question.group, question.resource, question.subresource)


def _subject_name(subject: Object, namespace: str) -> str:
    """The user or group that a subject means; "" for none."""
    name: str = subject.get("name") or ""
    match subject.get("kind"):
        case "User" | "Group":
            return name
        case "ServiceAccount":
            own = subject.get("namespace") or namespace
            return serviceaccounts.user_name(own, name) if own else ""
        case _:
            return ""


def _described(binding: Object, ref: Object, subject: Object, namespace: str) -> str:
    name, subject_name = objects.name(binding), subject.get("name", "")
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    where = f"{name}/{namespace}" if namespace else name
    if subject.get("kind") == "ServiceAccount":
        subject_name = f"{subject_name}/{subject.get('namespace') or namespace}"
    role = f"{ref.get('kind', '')} {quote(ref.get('name', ''))}"
    return f"{kind} {quote(where)} of {role} to {subject.get('kind', '')} {quote(subject_name)}"


def _missing(ref: Object) -> str:
    return f"{ref.get('kind', '').lower()}.rbac.authorization.k8s.io {quote(ref.get('name', ''))} not found"


def _joined(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
