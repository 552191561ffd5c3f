"""A compiled PolicyRule of a role: matching, coverage, and its form in messages.

Equal rules are one object, in whichever role or tenant they are: a thousand tenants with the same role share
its rules.
"""

from collections.abc import Iterable
from functools import lru_cache

from alcove.api.objects import Object

ANY = "*"
SHARED_RULES_MAX = 16_384
SHARED_LENGTH_MAX = 1_024
"""Characters of a rule that others may share: it is kept though no role has it any more."""


class PolicyRule:
    """Immutable. The lists keep their order, which users see."""

    __slots__ = (
        "_groups",
        "_names",
        "_resources",
        "_url_prefixes",
        "_urls",
        "_verbs",
        "groups",
        "names",
        "resources",
        "urls",
        "verbs",
    )

    def __init__(
        self,
        verbs: tuple[str, ...],
        groups: tuple[str, ...] = (),
        resources: tuple[str, ...] = (),
        names: tuple[str, ...] = (),
        urls: tuple[str, ...] = (),
    ) -> None:
        self.verbs, self.groups, self.resources, self.names, self.urls = verbs, groups, resources, names, urls
        self._verbs = frozenset(verbs)
        self._groups = frozenset(groups)
        self._resources = frozenset(resources)
        self._names = frozenset(names)
        self._urls = frozenset(urls)
        self._url_prefixes = tuple(url.rstrip(ANY) for url in urls if url.endswith(ANY))

    def matches(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule matches this request, apart from the object's name (see `names`)."""
        verbs, groups, resources = self._verbs, self._groups, self._resources
        if not (verb in verbs or ANY in verbs) or not (group in groups or ANY in groups):
            return False
        if ANY in resources:
            return True
        if subresource:
            return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources
        return resource in resources

    def matches_path(self, verb: str, path: str) -> bool:
        if not (verb in self._verbs or ANY in self._verbs):
            return False
        return path in self._urls or path.startswith(self._url_prefixes)

    def covers_resource(self, group: str, resource: str) -> bool:
        """Whether this rule selects everything that `group` and `resource` (both may be wildcards) select."""
        if not (group in self._groups or ANY in self._groups):
            return False
        if resource in self._resources or ANY in self._resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self._resources

    def covered_names(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that the rule covers; "" stands for objects of any name."""
        return self._names & names if self._names else names

    def covers_url(self, url: str) -> bool:
        return url in self._urls or url.startswith(self._url_prefixes)

    def to_object(self) -> Object:
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {field: list(values) for field, values in fields.items() if values}

    def __str__(self) -> str:
        """The form in error messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
        fields = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{field}:{quoted(values)}" for field, values in fields if values) + "}"

    def _key(self) -> tuple[tuple[str, ...], ...]:
        return (self.verbs, self.groups, self.resources, self.names, self.urls)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PolicyRule) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Kubernetes prints it: `["a" "b"]`."""
    return "[" + " ".join(quote(value) for value in values) + "]"


def quote(text: str) -> str:
    """A string in double quotes, with quotes, backslashes and unprintable characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if escaped.isprintable():
        return f'"{escaped}"'
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped) + '"'


@lru_cache(SHARED_RULES_MAX)
def _shared(*parts: tuple[str, ...]) -> PolicyRule:
    return PolicyRule(*parts)


def compile_rule(raw: Object) -> PolicyRule:
    """Compiles a role's `rules[i]`."""
    parts = (
        tuple(raw.get("verbs") or ()),
        tuple(raw.get("apiGroups") or ()),
        tuple(raw.get("resources") or ()),
        tuple(raw.get("resourceNames") or ()),
        tuple(raw.get("nonResourceURLs") or ()),
    )
    length = sum(len(text) for part in parts for text in part)
    return _shared(*parts) if length <= SHARED_LENGTH_MAX else PolicyRule(*parts)


def compile_rules(raws: Iterable[Object] | None) -> tuple[PolicyRule, ...]:
    return tuple(compile_rule(raw) for raw in raws or ())
