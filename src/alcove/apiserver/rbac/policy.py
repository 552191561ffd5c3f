"""A tenant's compiled roles and bindings: which subject has which rules, and by which binding.

A policy is valid for one generation of the tenant's RBAC objects and is then dropped. Cluster-wide bindings
are compiled immediately, those of a namespace on first use, so the cost of a change depends on what is used,
not on what exists; of large policies, which are compiled in a thread, all namespaces are compiled. A bounded
number of results is cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth import serviceaccounts
from alcove.apiserver.cache.snapshot import CacheSnapshot
from alcove.apiserver.rbac import aggregate, defaults
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules, quote

RESULTS_MAX = 512
NAMESPACES_MAX = 1024
LARGE_OBJECTS, LARGE_BYTES = 200, 64 << 10
"""A policy of more RBAC objects, or more bytes in them, is large: to compile it takes milliseconds."""
RULES_MAX = 10_000
"""Rules of one subject that count, and its bindings without rules; further ones grant nothing. Each query looks at
all of them."""


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


_NO_GRANTS = _Index()


class RbacPolicy:
    def __init__(
        self,
        tenant: TenantId,
        reader: CacheSnapshot,
        *,
        previous: RbacPolicy | None = None,
        is_large: bool = False,
    ) -> None:
        """`previous`: an earlier policy of the tenant, of which unchanged parts are reused."""
        self._tenant = tenant
        self._reader = reader
        self.is_large = is_large
        self._namespaces: dict[str, _Index] = {}
        self.results: dict[RbacQuery, RbacResult] = {}
        if previous is not None and not self._is_same(previous, defaults.CLUSTER_ROLES):
            previous = None
        self._cluster_rules: dict[str, tuple[PolicyRule, ...] | None] = (
            {} if previous is None else previous._cluster_rules
        )
        is_kept = previous is not None and self._is_same(previous, defaults.CLUSTER_ROLE_BINDINGS)
        self._cluster: _Index = previous._cluster if previous and is_kept else self._compile_cluster()
        if is_large:
            for namespace in reader.namespaces(tenant, defaults.ROLE_BINDINGS):
                self._namespaces[namespace] = self._reuse(previous, namespace) or self._compile(namespace)

    def _is_same(self, previous: RbacPolicy, resource: GroupResource, namespace: str = "") -> bool:
        return self._reader.is_same(previous._reader, self._tenant, resource, namespace)

    def _reuse(self, previous: RbacPolicy | None, namespace: str) -> _Index | None:
        """The compiled bindings of a namespace in the policy before, if nothing has changed there."""
        if previous is None or not all(
            self._is_same(previous, each, namespace) for each in (defaults.ROLE_BINDINGS, defaults.ROLES)
        ):
            return None
        return previous._namespaces.get(namespace)

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
                if not (
                    rule.matches_path(query.verb, query.path)
                    if query.path
                    else rule.matches(query.verb, query.group, query.resource, query.subresource)
                ):
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
        indexes = [self._cluster, *([self._namespace(namespace)] if namespace else [])]
        rules = 0
        for grant in (grant for index in indexes for grant in index.grants(user, groups)):
            rules += len(grant.rules) or 1
            if rules > RULES_MAX:
                return
            yield grant

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
            if self.is_large:
                return _NO_GRANTS
            if len(self._namespaces) >= NAMESPACES_MAX:
                self._namespaces.clear()
            index = self._namespaces[namespace] = self._compile(namespace)
        return index

    def _compile_cluster(self) -> _Index:
        stored = self._reader.list(self._tenant, defaults.CLUSTER_ROLE_BINDINGS)
        bindings = defaults.with_built_in(self._tenant, defaults.CLUSTER_ROLE_BINDINGS, stored)
        return self._index(bindings.values(), "")

    def _compile(self, namespace: str) -> _Index:
        return self._index(self._reader.list(self._tenant, defaults.ROLE_BINDINGS, namespace), namespace)

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


def rules_of(grants: Iterable[RbacGrant]) -> list[PolicyRule]:
    """Each rule once. Takes several milliseconds for thousands of them."""
    return list(dict.fromkeys(rule for grant in grants for rule in grant.rules))


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
