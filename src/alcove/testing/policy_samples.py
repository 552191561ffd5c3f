"""NetworkPolicies to try: random ones, and the corners of the API's definition.

They are about pods with the labels `app: web|db` and `tier: front|back` in the namespaces `shop` and `bank`, which have
the label `team: a|b`.
"""

import random
from collections.abc import Sequence
from typing import Any

from alcove.api.objects import Object

NAMESPACES = ("shop", "bank")
APPS, TIERS, TEAMS = ("web", "db"), ("front", "back"), ("a", "b")
PORTS = {"TCP": (80, 81, 443), "UDP": (80, 5353), "SCTP": (80, 81)}
NAMES = {
    "web": {("http", "TCP"): 80, ("http", "UDP"): 5353},
    "db": {("http", "TCP"): 81, ("sql", "TCP"): 443, ("sig", "SCTP"): 80},
}
"""Numbers of the named ports of each app, by name and protocol: one name may mean several numbers."""

WEB, DB = ({"matchLabels": {"app": app}} for app in APPS)
DNS_PODS = {"matchLabels": {"k8s-app": "kube-dns"}}
TEAM_A = {"matchLabels": {"team": "a"}}


def policy(name: str, namespace: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def corners(ranges: Sequence[str], outside: str) -> dict[str, list[Object]]:
    """Policies by what they are about. `ranges` are those of the pods; `outside` is one of the world."""
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ranges]
    specs: dict[str, list[Object]] = {
        "default deny of ingress": [{"podSelector": {}}],
        "default deny of egress": [{"podSelector": {}, "policyTypes": ["Egress"]}],
        "an empty rule allows all": [{"ingress": [{}], "egress": [{}], "policyTypes": ["Ingress", "Egress"]}],
        "empty lists are as missing ones": [{"ingress": [{"from": [], "ports": []}], "egress": []}],
        "rules of a direction that is not in policyTypes": [
            {"ingress": [{"from": [{"podSelector": WEB}]}], "egress": [{"to": blocks}], "policyTypes": ["Egress"]}
        ],
        "egress rules make it an egress policy": [{"podSelector": WEB, "egress": [{"to": [{"podSelector": DB}]}]}],
        "several policies are joined": [
            {"podSelector": WEB, "ingress": [{"ports": [{"port": 80}]}]},
            {"ingress": [{"from": [{"podSelector": DB}], "ports": [{"protocol": "UDP", "port": 80}]}]},
            {"podSelector": DB, "policyTypes": ["Ingress", "Egress"]},
        ],
        "namespaces and pods: both, either": [
            {"podSelector": WEB, "ingress": [{"from": [{"namespaceSelector": TEAM_A, "podSelector": DB}]}]},
            {"podSelector": DB, "ingress": [{"from": [{"namespaceSelector": {}}, {"podSelector": {}}]}]},
        ],
        "named ports": [
            {"ingress": [{"ports": [{"port": "http"}, {"port": "sig", "protocol": "SCTP"}]}]},
            {"egress": [{"ports": [{"port": "http"}]}, {"to": blocks, "ports": [{"port": "http", "protocol": "UDP"}]}]},
        ],
        "ranges of ports": [
            {"ingress": [{"ports": [{"port": 79, "endPort": 80}, {"port": 5000, "endPort": 6000, "protocol": "UDP"}]}]}
        ],
        "protocols without ports": [{"ingress": [{"ports": [{"protocol": "SCTP"}, {"protocol": "UDP"}]}]}],
        "blocks with exceptions": [
            {"podSelector": WEB, "ingress": [{"from": [_cut(cidr, 2) for cidr in ranges]}]},
            {"podSelector": DB, "egress": [{"to": [_cut("0.0.0.0/0", 1), {"ipBlock": {"cidr": outside}}]}]},
        ],
        "a block of IPv6 has no IPv4": [{"ingress": [{"from": [{"ipBlock": {"cidr": "::/0"}}]}]}],
        "a block of IPv4 has no IPv6": [{"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}],
        "DNS and nothing else of the gateway": [
            {"podSelector": WEB, "egress": [{"to": [{"namespaceSelector": {}, "podSelector": DNS_PODS}]}]}
        ],
    }  # fmt: skip
    return {
        name: [policy(f"corner-{at}", "shop", spec) for at, spec in enumerate(each)]
        for name, each in specs.items()
    }


def _cut(cidr: str, parts: int) -> Object:
    """A block without one of its halves or quarters."""
    # Imported addresses would be checked by the same code as the product's.
    base, _, length = cidr.partition("/")
    return {"ipBlock": {"cidr": cidr, "except": [f"{base}/{int(length) + parts}"]}}


class PolicyChooser:
    """Random policies, the same for the same seed."""

    def __init__(self, seed: int, ranges: Sequence[str], addresses: Sequence[str], outside: str) -> None:
        """`addresses` are those of pods."""
        self._chance = random.Random(seed)
        self._ranges = list(ranges)
        self._addresses = list(addresses)
        self._outside = outside

    def policies(self) -> list[Object]:
        return [
            policy(f"random-{number}", self._chance.choice(NAMESPACES), self._spec())
            for number in range(self._chance.randrange(1, 6))
        ]

    def pod_labels(self) -> dict[str, str]:
        return {"app": self._chance.choice(APPS), "tier": self._chance.choice(TIERS)}

    def namespace_labels(self) -> dict[str, str]:
        return {"team": self._chance.choice(TEAMS)}

    def _spec(self) -> Object:
        spec: Object = {"podSelector": self._selector("app", "tier")}
        if self._chance.random() < 0.6:
            spec["policyTypes"] = self._chance.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            if self._chance.random() < 0.6:
                spec[direction] = [self._rule(peers) for _ in range(self._chance.randrange(3))]
        return spec

    def _rule(self, peers: str) -> Object:
        rule: Object = {}
        if self._chance.random() < 0.8:
            rule[peers] = [self._peer() for _ in range(self._chance.randrange(4))]
        if self._chance.random() < 0.6:
            rule["ports"] = [self._port() for _ in range(self._chance.randrange(4))]
        return rule

    def _peer(self) -> Object:
        kind = self._chance.randrange(5)
        if kind == 0:
            return {"podSelector": self._selector("app", "tier")}
        if kind == 1:
            return {"namespaceSelector": self._selector("team")}
        if kind == 2:
            return {
                "namespaceSelector": self._selector("team"),
                "podSelector": self._selector("app", "tier"),
            }
        if kind == 3:
            address = self._chance.choice(self._addresses)
            return {"ipBlock": {"cidr": f"{address}/{128 if ':' in address else 32}"}}
        block: Object = {"cidr": self._chance.choice((*self._ranges, self._outside, "0.0.0.0/0", "::/0"))}
        if self._chance.random() < 0.5:
            block["except"] = self._exceptions(block["cidr"])
        return {"ipBlock": block}

    def _exceptions(self, cidr: str) -> list[str]:
        inside = [
            f"{each}/{128 if ':' in each else 32}"
            for each in self._addresses
            if (":" in each) == (":" in cidr) and cidr != self._outside
        ]
        base, _, length = cidr.partition("/")
        half = f"{base}/{int(length) + self._chance.randrange(1, 7)}"
        return self._chance.sample([half, *inside], self._chance.randrange(1, min(3, len(inside) + 1) + 1))

    def _port(self) -> Object:
        port: Object = {}
        if self._chance.random() < 0.7:
            port["protocol"] = self._chance.choice(("TCP", "UDP", "SCTP"))
        kind = self._chance.randrange(4)
        if kind == 1:
            port["port"] = self._chance.choice((80, 81, 443, 5353))
        elif kind == 2:
            port["port"] = self._chance.choice(("http", "sql", "sig", "nothing"))
        elif kind == 3:
            port["port"] = self._chance.choice((1, 80, 81, 400))
            port["endPort"] = port["port"] + self._chance.choice((0, 1, 43, 5000))
        return port

    def _selector(self, *keys: str) -> Object:
        values = {"app": APPS, "tier": TIERS, "team": TEAMS}
        selector: dict[str, Any] = {}
        for key in keys:
            kind = self._chance.randrange(6)
            if kind == 0:
                selector.setdefault("matchLabels", {})[key] = self._chance.choice(values[key])
            elif kind < 3:
                operator = self._chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
                expression: Object = {"key": key, "operator": operator}
                if operator in ("In", "NotIn"):
                    expression["values"] = self._chance.sample(values[key], self._chance.randrange(1, 3))
                selector.setdefault("matchExpressions", []).append(expression)
        return selector
