"""Which flow schema a request matches: by the caller, and by the resource or the path.

Schemas are tried in the order of their precedence, then of their names. The last one, `catch-all`, matches every
request.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from alcove.api.objects import Object, name
from alcove.apiserver.auth import serviceaccounts
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import RequestTarget

MATCHES_KEPT_MAX = 512

Values = frozenset[str] | None
"""Allowed values; None allows all."""


class FlowSchema(Struct, frozen=True):
    name: str
    uid: str
    level: str
    by: str
    """`ByUser`, `ByNamespace`, or empty: all requests of the schema are one flow."""
    rules: tuple[_Rules, ...]

    def matches(self, request: FlowRequest) -> bool:
        return any(rule.matches(request) for rule in self.rules)

    def flow_of(self, identity: Identity, target: RequestTarget) -> str:
        """The flow that a request belongs to."""
        match self.by:
            case "ByUser":
                return f"{self.name}/{identity.user}"
            case "ByNamespace":
                return f"{self.name}/{target.namespace}"
        return self.name


class FlowRequest(Struct, frozen=True):
    user: str
    groups: tuple[str, ...]
    verb: str
    group: str
    resource: str
    """With its subresource: `pods/log`. Empty for a path."""
    namespace: str
    path: str


class _ResourceRule(Struct, frozen=True):
    verbs: Values
    groups: Values
    resources: Values
    namespaces: Values
    cluster: bool

    def matches(self, request: FlowRequest) -> bool:
        if not (
            _has(self.verbs, request.verb)
            and _has(self.resources, request.resource)
            and _has(self.groups, request.group)
        ):
            return False
        return _has(self.namespaces, request.namespace) if request.namespace else self.cluster


class _PathRule(Struct, frozen=True):
    verbs: Values
    paths: Values
    prefixes: tuple[str, ...]

    def matches(self, request: FlowRequest) -> bool:
        if not _has(self.verbs, request.verb):
            return False
        return _has(self.paths, request.path) or request.path.startswith(self.prefixes)


class _Rules(Struct, frozen=True):
    users: Values
    groups: Values
    account_prefixes: tuple[str, ...]
    """Prefixes of the users that are service accounts of a namespace."""
    resources: tuple[_ResourceRule, ...]
    paths: tuple[_PathRule, ...]

    def matches(self, request: FlowRequest) -> bool:
        if not self._has_subject(request):
            return False
        rules: Iterable[_ResourceRule | _PathRule] = self.resources if request.resource else self.paths
        return any(rule.matches(request) for rule in rules)

    def _has_subject(self, request: FlowRequest) -> bool:
        if (
            _has(self.users, request.user)
            or self.groups is None
            or not self.groups.isdisjoint(request.groups)
        ):
            return True
        return bool(self.account_prefixes) and request.user.startswith(self.account_prefixes)


class FlowSchemas:
    """A tenant's flow schemas, compiled. Valid until one of them changes."""

    def __init__(self, objects: Iterable[Object]) -> None:
        ordered = sorted(objects, key=lambda obj: (obj["spec"]["matchingPrecedence"], name(obj)))
        self._schemas = tuple(map(_compile, ordered))
        self._matches: dict[FlowRequest, FlowSchema] = {}

    def match(self, identity: Identity, verb: str, target: RequestTarget) -> FlowSchema:
        resource = target.resource
        if resource and target.subresource:
            resource = f"{resource}/{target.subresource}"
        path = "" if resource else target.path
        request = FlowRequest(
            identity.user, identity.groups, verb, target.group, resource, target.namespace, path
        )
        found = self._matches.get(request)
        if found is None:
            if len(self._matches) >= MATCHES_KEPT_MAX:
                self._matches.clear()
            last = self._schemas[-1]
            found = next((each for each in self._schemas if each.matches(request)), last)
            self._matches[request] = found
        return found


def _has(values: Values, value: str) -> bool:
    return values is None or value in values


def _values(values: Iterable[str] | None) -> Values:
    found = frozenset(values or ())
    return None if "*" in found else found


def _compile(obj: Object) -> FlowSchema:
    spec = obj["spec"]
    return FlowSchema(
        name(obj),
        obj["metadata"].get("uid", ""),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        (spec.get("distinguisherMethod") or {}).get("type", ""),
        tuple(map(_rules, spec.get("rules") or ())),
    )


def _rules(rule: Object) -> _Rules:
    users: list[str] = []
    groups: list[str] = []
    prefixes: list[str] = []
    for subject in rule.get("subjects") or ():
        match subject.get("kind"):
            case "User":
                users.append((subject.get("user") or {}).get("name", ""))
            case "Group":
                groups.append((subject.get("group") or {}).get("name", ""))
            case "ServiceAccount":
                account = subject.get("serviceAccount") or {}
                if account.get("name") == "*":
                    prefixes.append(serviceaccounts.user_name(account.get("namespace", ""), ""))
                else:
                    users.append(
                        serviceaccounts.user_name(account.get("namespace", ""), account.get("name", ""))
                    )
    return _Rules(
        _values(users),
        _values(groups),
        tuple(prefixes),
        tuple(map(_resource_rule, rule.get("resourceRules") or ())),
        tuple(map(_path_rule, rule.get("nonResourceRules") or ())),
    )


def _resource_rule(rule: Object) -> _ResourceRule:
    return _ResourceRule(
        _values(rule.get("verbs")),
        _values(rule.get("apiGroups")),
        _values(rule.get("resources")),
        _values(rule.get("namespaces")),
        bool(rule.get("clusterScope")),
    )


def _path_rule(rule: Object) -> _PathRule:
    urls = rule.get("nonResourceURLs") or ()
    prefixes = (url.removesuffix("*").rstrip("/") + "/" for url in urls)
    return _PathRule(_values(rule.get("verbs")), _values(urls), tuple(prefixes))
