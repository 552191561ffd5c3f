"""The resolv.conf of a pod, by its `dnsPolicy` and `dnsConfig`. Pure functions.

ClusterFirst             the network's DNS server; searches the pod's namespace, all services, the domain
Default                  the node's resolv.conf
None                     `dnsConfig` only
ClusterFirstWithHostNet  as ClusterFirst, for pods on the node's network too
"""

from collections.abc import Iterable

from msgspec import Struct

from alcove.api.objects import Object

NAMESERVERS_MAX = 3
SEARCHES_MAX = 32
SEARCH_BYTES_MAX = 2_048
NDOTS = "ndots:5"


class ResolvConf(Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def text(self) -> str:
        lines = [f"nameserver {server}" for server in self.nameservers]
        if self.searches:
            lines.insert(0, f"search {' '.join(self.searches)}")
        if self.options:
            lines.append(f"options {' '.join(self.options)}")
        return "".join(f"{line}\n" for line in lines)


def parse(text: str) -> ResolvConf:
    """Parses a resolv.conf; the last of several `search` lines is used."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        fields = line.split("#")[0].split(";")[0].split()
        match fields[:1]:
            case ["nameserver"]:
                servers += fields[1:2]
            case ["search" | "domain"]:
                searches = tuple(fields[1:])
            case ["options"]:
                options += fields[1:]
    return ResolvConf(tuple(servers), searches, tuple(options))


def for_pod(
    namespace: str, spec: Object, servers: Iterable[str], domain: str, node: ResolvConf
) -> ResolvConf:
    """`servers` are the addresses of the network's DNS service, `node` is the node's resolv.conf."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    match policy:
        case "None":
            base = ResolvConf()
        case "Default":
            base = node
        case _:
            cluster_searches = (f"{namespace}.svc.{domain}", f"svc.{domain}", domain)
            base = ResolvConf(tuple(servers), (*cluster_searches, *node.searches), (NDOTS,))
    return _merge(base, spec.get("dnsConfig") or {})


def _merge(base: ResolvConf, config: Object) -> ResolvConf:
    servers = dict.fromkeys([*base.nameservers, *(config.get("nameservers") or ())])
    searches = dict.fromkeys([*base.searches, *(config.get("searches") or ())])
    options = {option.partition(":")[0]: option for option in base.options}
    for option in config.get("options") or ():
        value = option.get("value")
        options[option["name"]] = option["name"] if value is None else f"{option['name']}:{value}"
    return ResolvConf(tuple(servers)[:NAMESERVERS_MAX], _limited(searches), tuple(options.values()))


def _limited(searches: Iterable[str]) -> tuple[str, ...]:
    """The first search domains, within the limits of resolvers."""
    limited: list[str] = []
    for search in searches:
        if len(limited) == SEARCHES_MAX or len(" ".join([*limited, search])) > SEARCH_BYTES_MAX:
            break
        limited.append(search)
    return tuple(limited)
