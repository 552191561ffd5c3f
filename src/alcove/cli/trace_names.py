"""The name in a trace: what the DNS server of the pod's network says of it, beside what the objects say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.network.trace import NameLookup

NETWORK_POLICIES = ("", "ClusterFirst", "ClusterFirstWithHostNet")
"""Values of `dnsPolicy` by which pods ask the DNS server of their network."""

ADDRESSES_SHOWN = 8


def other_servers(pod: Object) -> str:
    """Why the pod does not ask the DNS server of its network; empty if it does."""
    spec = pod.get("spec") or {}
    policy = spec.get("dnsPolicy") or ""
    return "" if policy in NETWORK_POLICIES else f"not asked: the pod has other servers (dnsPolicy {policy})"


def compare_names(lookup: NameLookup | None, answer: Object, node: str) -> str:
    """Where the server differs from what the objects say; empty if it does not, or that cannot be said."""
    if lookup is None or lookup.addresses is None or not answer or "failure" in answer:
        return ""
    if set(lookup.addresses) == set(answer.get("addresses") or ()):
        return ""
    says = _said(answer.get("addresses") or ())
    return f"the objects say that {lookup.name} is {_said(lookup.addresses)}, but the DNS server of {node} says {says}"


def _said(addresses: tuple[str, ...] | list[str]) -> str:
    return ", ".join(sorted(addresses)) or "nothing"


def name_rows(answer: Object, node: str) -> list[tuple[str, str, str]]:
    if not answer:
        return []
    where = f"on {node}: " if node else ""
    if "failure" in answer:
        return [("dns server", "", f"{where}{answer['failure']}")]
    if denied := answer.get("denied"):
        return [("dns server", "DROP", f"{where}the pod does not reach it: {denied}")]
    name = answer["name"].rstrip(".")
    if addresses := answer.get("addresses"):
        more = len(addresses) - ADDRESSES_SHOWN
        shown = ", ".join(addresses[:ADDRESSES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return [("dns server", "ok", f"{where}{name} is {shown}")]
    return [("dns server", "no", f"{where}{name}: {answer.get('message', '')}")]
