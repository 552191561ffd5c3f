"""Loads nftables rules into namespaces, each ruleset in one transaction: one that is refused changes nothing."""

import subprocess
import time
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from alcove.dataplane.apply import Checkpoint
from alcove.dataplane.errors import RulesRefused
from alcove.dataplane.namespaces import path_of

AGAIN_SECONDS = 30.0
"""Refused rules are tried again after this time, or when they change: each trial is a process, and other networks wait
for it."""

Build = Callable[[Collection[int]], str]
"""A ruleset for several networks, without the parts of these VNIs."""


class _Refusal(Struct, frozen=True):
    rules: str
    reason: str
    until: float


class RuleLoader:
    def __init__(self, checkpoint: Checkpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._checkpoint = checkpoint
        self._clock = clock
        self.loaded: dict[str, str] = {}
        """The rules by namespace."""
        self._refusals: dict[str, _Refusal] = {}
        self._parts: dict[int, _Refusal] = {}
        """Parts of networks that are left out of rules that networks share, by VNI."""

    def load(self, namespace: str, rules: str) -> None:
        """Raises RulesRefused; the rules that the namespace has stay in force then."""
        if self.loaded.get(namespace) == rules:
            return
        known = self._refusals.get(namespace)
        if known is not None and known.rules == rules and self._clock() < known.until:
            raise RulesRefused(namespace, known.reason)
        self._checkpoint(f"rules of {namespace}")
        if reason := _nft(namespace, rules):
            self._refusals[namespace] = _Refusal(rules, reason, self._clock() + AGAIN_SECONDS)
            raise RulesRefused(namespace, reason)
        self._refusals.pop(namespace, None)
        self.loaded[namespace] = rules

    def load_shared(self, namespace: str, build: Build, vnis: Collection[int]) -> Mapping[int, str]:
        """Loads rules in which these networks have a part each. A part that is refused is left out; returns the
        reasons by VNI. Raises RulesRefused if the rest is refused as well."""
        alone = {vni: build([each for each in vnis if each != vni]) for vni in self._parts if vni in vnis}
        self._parts = {
            vni: refusal
            for vni, refusal in self._parts.items()
            if alone.get(vni) == refusal.rules and self._clock() < refusal.until
        }
        try:
            self.load(namespace, build(self._parts))
        except RulesRefused:
            for vni in set(vnis) - self._parts.keys():
                rules = build([each for each in vnis if each != vni])
                if reason := _nft(namespace, rules, "--check"):
                    self._parts[vni] = _Refusal(rules, reason, self._clock() + AGAIN_SECONDS)
            self.load(namespace, build(self._parts))
        return {vni: refusal.reason for vni, refusal in self._parts.items()}

    def forget(self, namespace: str) -> None:
        self.loaded.pop(namespace, None)
        self._refusals.pop(namespace, None)


def _nft(namespace: str, rules: str, *options: str) -> str:
    """Why the rules are refused; empty if they are not."""
    command = ["nsenter", f"--net={path_of(namespace)}", "nft", *options, "-f", "-"]
    completed = subprocess.run(command, input=rules, text=True, capture_output=True, check=False)
    return (completed.stderr.strip() or "no reason given") if completed.returncode else ""
