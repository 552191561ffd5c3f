"""A compact notation for the default roles: one line per rule, one entry per role or binding."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api.objects import Object

GROUP = "rbac.authorization.k8s.io"
API_VERSION = f"{GROUP}/v1"

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
READ_WRITE = "create delete deletecollection get list patch update watch"

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


class RoleRow(Struct, frozen=True):
    """A rule in compact form: `RoleRow("get list", "core apps", "pods deployments")`; `core` is the group
    ""."""

    verbs: str
    groups: str = ""
    resources: str = ""
    names: str = ""
    urls: str = ""

    def to_rule(self) -> Object:
        groups = ["" if group == "core" else group for group in self.groups.split()]
        fields = {
            "verbs": self.verbs.split(),
            "apiGroups": groups,
            "resources": self.resources.split(),
            "resourceNames": self.names.split(),
            "nonResourceURLs": self.urls.split(),
        }
        return {field: values for field, values in fields.items() if values}


def cluster_role(
    name: str, lines: Iterable[RoleRow] = (), aggregates: str = "", aggregate_to: str = ""
) -> Object:
    """A default ClusterRole. `aggregates`, `aggregate_to`: "view" for the label `aggregate-to-view`."""
    labels = dict(_LABELS)
    if aggregate_to:
        labels[_aggregate_to(aggregate_to)] = "true"
    role: Object = {
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels, "annotations": dict(_ANNOTATIONS)},
        "rules": [line.to_rule() for line in lines],
    }
    if aggregates:
        role["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {_aggregate_to(aggregates): "true"}}]
        }
    return role


def _aggregate_to(role: str) -> str:
    return f"{GROUP}/aggregate-to-{role}"


def cluster_role_binding(name: str, *subjects: tuple[str, str]) -> Object:
    """A default ClusterRoleBinding to the role of the same name; subjects as (kind, name)."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject} for kind, subject in subjects],
    }


def by_name(roles: Iterable[Object]) -> Mapping[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in roles}
