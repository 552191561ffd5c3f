"""A tenant's compiled roles and bindings: which subject has which rules, and by which binding.

A policy is valid for one generation of the tenant's RBAC objects and is then dropped. Cluster-wide bindings
are compiled immediately, those of a namespace on first use, so the cost of a change depends on what is used,
not on what exists. A bounded number of results is cached.
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

RESULTS_MAX = 512
NAMESPACES_MAX = 1024


class AccessDecision(Struct, frozen=True):
    allowed: bool
    reason: str = ""
    """The binding that allowed it; or, if denied, a possible cause (a binding to a missing role)."""


class RbacQuery(Struct, frozen=True):
    """A query to a policy, without the object's name. If `namespace` is "", only cluster-wide bindings count.
    With a `path` it is a query about a non-resource URL."""

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    path: str = ""


class RbacResult(Struct, frozen=True):
    """The result of a query: for objects of all names, or by name."""

    always: AccessDecision | None
    by_name: dict[str, AccessDecision]
    otherwise: AccessDecision


class RbacGrant(Struct, frozen=True):
    """The rules that one binding grants to one subject."""

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
        self.results: dict[RbacQuery, RbacResult] = {}
        stored = reader.list(tenant, defaults.CLUSTER_ROLE_BINDINGS)
        bindings = defaults.with_built_in(tenant, defaults.CLUSTER_ROLE_BINDINGS, stored)
        self._cluster = self._index(bindings.values(), "")

    def evaluate(self, query: RbacQuery) -> RbacResult:
        """Evaluates the query and caches the result in `results`."""
        if len(self.results) >= RESULTS_MAX:
            self.results.clear()
        result = self.results[query] = self._evaluate(query)
        return result

    def _evaluate(self, query: RbacQuery) -> RbacResult:
        by_name: dict[str, AccessDecision] = {}
        broken = []
        for grant in self.grants(query.user, query.groups, query.namespace):
            if grant.broken:
                broken.append(grant.broken)
            for rule in grant.rules:
                if not _matches(rule, query):
                    continue
                decision = AccessDecision(True, grant.reason)
                if not rule.names or query.path:
                    return RbacResult(decision, {}, decision)
                for name in rule.names:
                    by_name.setdefault(name, decision)
        message = f"RBAC: {_joined(broken)}" if broken else ""
        return RbacResult(None, by_name, AccessDecision(False, message))

    def grants(self, user: str, groups: Iterable[str], namespace: str) -> Iterator[RbacGrant]:
        """All grants to a subject cluster-wide, and in `namespace` unless it is ""."""
        yield from self._cluster.grants(user, groups)
        if namespace:
            yield from self._namespace(namespace).grants(user, groups)

    def binds_in(self, namespace: str) -> bool:
        """Whether the namespace has a role binding."""
        return bool(namespace) and bool(self._namespace(namespace))

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None if the role does not exist."""
        if kind == "ClusterRole":
            return self._cluster_role_rules(name)
        role = self._reader.get(self._tenant, defaults.ROLES, namespace, name)
        return None if role is None else compile_rules(role.get("rules"))

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


def _matches(rule: PolicyRule, query: RbacQuery) -> bool:
    if query.path:
        return rule.matches_path(query.verb, query.path)
    return rule.matches(query.verb, query.group, query.resource, query.subresource)


def _subject_name(subject: Object, namespace: str) -> str:
    """The user or group name of a subject; "" if it has none."""
    name: str = subject.get("name") or ""
    match subject.get("kind"):
        case "User" | "Group":
            return name
        case "ServiceAccount":
            account_namespace = subject.get("namespace") or namespace
            return serviceaccounts.user_name(account_namespace, name) if account_namespace else ""
        case _:
            return ""


def _described(binding: Object, ref: Object, subject: Object, namespace: str) -> str:
    name, subject_name = objects.name(binding), subject.get("name", "")
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    binding_name = f"{name}/{namespace}" if namespace else name
    if subject.get("kind") == "ServiceAccount":
        subject_name = f"{subject_name}/{subject.get('namespace') or namespace}"
    role = f"{ref.get('kind', '')} {quote(ref.get('name', ''))}"
    return f"{kind} {quote(binding_name)} of {role} to {subject.get('kind', '')} {quote(subject_name)}"


def _missing(ref: Object) -> str:
    return f"{ref.get('kind', '').lower()}.rbac.authorization.k8s.io {quote(ref.get('name', ''))} not found"


def _joined(texts: Iterable[str]) -> str:
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
