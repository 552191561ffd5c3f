"""The resolv.conf of a pod, after its `dnsPolicy` and `dnsConfig`: a pure function.

ClusterFirst             the network's DNS server; searches the pod's namespace, all services, the domain
Default                  what the node itself uses
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
    """What a resolv.conf says; of several `search` lines the last counts."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        match words[:1]:
            case ["nameserver"]:
                servers += words[1:2]
            case ["search" | "domain"]:
                searches = tuple(words[1:])
            case ["options"]:
                options += words[1:]
    return ResolvConf(tuple(servers), searches, tuple(options))


def for_pod(
    namespace: str, spec: Object, servers: Iterable[str], domain: str, node: ResolvConf
) -> ResolvConf:
    """`servers` are the addresses of the network's DNS service, `node` what the node uses itself."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst" and spec.get("hostNetwork"):
        policy = "Default"
    match policy:
        case "None":
            base = ResolvConf()
        case "Default":
            base = node
        case _:
            own = (f"{namespace}.svc.{domain}", f"svc.{domain}", domain)
            base = ResolvConf(tuple(servers), (*own, *node.searches), (NDOTS,))
    return _merge(base, spec.get("dnsConfig") or {})


def _merge(base: ResolvConf, config: Object) -> ResolvConf:
    servers = dict.fromkeys([*base.nameservers, *(config.get("nameservers") or ())])
    searches = dict.fromkeys([*base.searches, *(config.get("searches") or ())])
    options = {option.partition(":")[0]: option for option in base.options}
    for option in config.get("options") or ():
        value = option.get("value")
        options[option["name"]] = option["name"] if value is None else f"{option['name']}:{value}"
    return ResolvConf(tuple(servers)[:NAMESERVERS_MAX], _fitting(searches), tuple(options.values()))


def _fitting(searches: Iterable[str]) -> tuple[str, ...]:
    """The first of them, within what resolvers take."""
    kept: list[str] = []
    for search in searches:
        if len(kept) == SEARCHES_MAX or len(" ".join([*kept, search])) > SEARCH_BYTES_MAX:
            break
        kept.append(search)
    return tuple(kept)
