"""Which runtimes this node has proven, and which of them a pod gets.

A handler is proven by a canary: a sandbox and a container in it that are really run. A pod that names a
handler gets that or nothing. One that names none gets the strongest its node is meant to have; if that one is
installed but failed its canary, the pod gets nothing either: never silently something weaker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.base import ContainerRuntime, HandlerName, Isolation, NoSuchHandler, RuntimeFailure
from alcove.agent.runtime.flavors import CRUN, GVISOR, GVISOR_HIDING, RUNC, RuntimeFlavor
from alcove.agent.runtime.oci import OciRuntime
from alcove.agent.runtime.proven_runtimes import FOLDER, ProvenRuntimes

CANARY_SECONDS_MAX = 30.0
ALIASES = {HandlerName("runsc"): GVISOR.handler}
TRIED: Mapping[HandlerName, tuple[RuntimeFlavor, ...]] = {
    CRUN.handler: (CRUN,),
    RUNC.handler: (RUNC,),
    GVISOR.handler: (GVISOR, GVISOR_HIDING),
}
"""Ways of calling each handler's runtime, the plainest first."""
_STRONGEST_FIRST = (GVISOR.handler, CRUN.handler, RUNC.handler)
_ORDINARY_FIRST = (CRUN.handler, RUNC.handler, GVISOR.handler)

Canary = Callable[[ContainerRuntime], Awaitable[None]]
"""Really runs something; raises RuntimeFailure where that does not go well."""

log = logging.getLogger(__name__)


class RuntimeHandlers(Struct):
    proven: dict[HandlerName, ContainerRuntime]
    failed: dict[HandlerName, str]
    """Installed, but what they ran did not run well: why."""

    def pick(self, asked: str, *, is_ring0: bool) -> ContainerRuntime:
        """The runtime of a pod; `asked` is the handler its RuntimeClass names, empty without one."""
        if asked:
            name = HandlerName(asked)
            return self._proven(ALIASES.get(name, name))
        for name in _ORDINARY_FIRST if is_ring0 else _STRONGEST_FIRST:
            if name in self.proven or name in self.failed:
                return self._proven(name)
        hollow = [each for each in self.proven.values() if each.isolation is Isolation.NONE]
        if hollow:
            return hollow[0]
        raise NoSuchHandler("this node has no container runtime")

    def runs_tenants(self) -> bool:
        """Whether a tenant's pod that names no handler gets a runtime."""
        try:
            self.pick("", is_ring0=False)
        except NoSuchHandler:
            return False
        return True

    def names(self) -> list[str]:
        """What the node may tell the world that it has."""
        return sorted([*self.proven, *(alias for alias, name in ALIASES.items() if name in self.proven)])

    def _proven(self, name: HandlerName) -> ContainerRuntime:
        if name in self.proven:
            return self.proven[name]
        why = self.failed.get(name, "it is not installed")
        raise NoSuchHandler(f'no runtime for "{name}" is configured: {why}')


async def prove_all(folder: Path, cgroups: Cgroups, canary: Canary) -> RuntimeHandlers:
    """Tries every handler that is installed and was not proven since the machine was started."""
    handlers = RuntimeHandlers({}, {})
    await prove_more(handlers, folder, cgroups, canary)
    return handlers


async def prove_more(handlers: RuntimeHandlers, folder: Path, cgroups: Cgroups, canary: Canary) -> bool:
    """Tries those that are installed and not proven, also what failed before; whether there are more now."""
    proofs, before = ProvenRuntimes(folder / FOLDER), len(handlers.proven)
    for name, flavors in TRIED.items():
        if flavors[0].find() is None or name in handlers.proven:
            continue
        known = proofs.find(name)
        if known is not None:
            handlers.proven[name] = OciRuntime(known, folder / name, cgroups)
            continue
        await _prove(handlers, name, flavors, folder / name, cgroups, canary)
        if (proven := handlers.proven.get(name)) is not None and isinstance(proven, OciRuntime):
            proofs.keep(proven.flavor)
    return len(handlers.proven) > before


async def _prove(
    handlers: RuntimeHandlers,
    name: HandlerName,
    flavors: tuple[RuntimeFlavor, ...],
    folder: Path,
    cgroups: Cgroups,
    canary: Canary,
) -> None:
    reasons: list[str] = []
    for flavor in flavors:
        try:
            # Apart from the pods that a stopped agent may have left running.
            probe = OciRuntime(flavor, folder / "canary", cgroups)
            async with asyncio.timeout(CANARY_SECONDS_MAX):
                await canary(probe)
            runtime = OciRuntime(flavor, folder, cgroups)
        except (RuntimeFailure, OSError, TimeoutError) as error:
            reasons.append(str(error) or type(error).__name__)
            continue
        handlers.proven[name] = runtime
        handlers.failed.pop(name, None)
        log.info("runtime proven", extra={"handler": name})
        return
    why = handlers.failed[name] = "; ".join(reasons)
    log.warning("runtime failed its canary", extra={"handler": name, "error": why})
