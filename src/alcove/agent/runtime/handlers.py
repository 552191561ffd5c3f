"""The runtime handlers that this node has proven, and which of them a pod gets.

A handler is proven by a canary: a sandbox with a container that is run. A pod that names a handler gets that
handler or none. A tenant's pod that names none gets the strongest one that is installed; if that one failed
its canary, the pod gets none: it never silently runs with weaker isolation.
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

CANARY_SECONDS_MAX = 90.0
"""Longer than a runtime that works takes on a machine that is kept busy: tenants' pods wait for its next try."""
ALIASES = {HandlerName("runsc"): GVISOR.handler}
TRIED: Mapping[HandlerName, tuple[RuntimeFlavor, ...]] = {
    CRUN.handler: (CRUN,),
    RUNC.handler: (RUNC,),
    GVISOR.handler: (GVISOR, GVISOR_HIDING),
}
"""The flavors to try for each handler, the simplest first."""
_STRONGEST_FIRST = (GVISOR.handler, CRUN.handler, RUNC.handler)
_ORDINARY_FIRST = (CRUN.handler, RUNC.handler, GVISOR.handler)

Canary = Callable[[ContainerRuntime], Awaitable[None]]
"""Runs a container; raises RuntimeFailure if that fails."""

log = logging.getLogger(__name__)


class RuntimeHandlers(Struct):
    proven: dict[HandlerName, ContainerRuntime]
    failed: dict[HandlerName, str]
    """Installed handlers that failed their canary, with the error."""

    def pick(self, requested: str, *, is_trusted: bool) -> ContainerRuntime:
        """The runtime of a pod; `requested` is the handler of its RuntimeClass, or empty. `is_trusted` are
        pods of ring0 and of tenants that it trusts. Raises NoSuchHandler."""
        if requested:
            name = HandlerName(requested)
            return self._proven(ALIASES.get(name, name))
        for name in _ORDINARY_FIRST if is_trusted else _STRONGEST_FIRST:
            if name in self.proven or name in self.failed:
                return self._proven(name)
        hollow = [each for each in self.proven.values() if each.isolation is Isolation.NONE]
        if hollow:
            return hollow[0]
        raise NoSuchHandler("this node has no container runtime")

    def runs_tenants(self) -> bool:
        """Whether a tenant's pod that names no handler gets a runtime."""
        try:
            self.pick("", is_trusted=False)
        except NoSuchHandler:
            return False
        return True

    def names(self) -> list[str]:
        """The proven handlers with their aliases, for the node's status."""
        return sorted([*self.proven, *(alias for alias, name in ALIASES.items() if name in self.proven)])

    def _proven(self, name: HandlerName) -> ContainerRuntime:
        if name in self.proven:
            return self.proven[name]
        message = self.failed.get(name, "it is not installed")
        raise NoSuchHandler(f'no runtime for "{name}" is configured: {message}')


async def prove_all(directory: Path, cgroups: Cgroups, canary: Canary) -> RuntimeHandlers:
    """Runs the canary with every installed handler that was not proven since boot."""
    handlers = RuntimeHandlers({}, {})
    await prove_more(handlers, directory, cgroups, canary)
    return handlers


async def prove_more(handlers: RuntimeHandlers, directory: Path, cgroups: Cgroups, canary: Canary) -> bool:
    """Runs the canary with installed handlers that are not proven, including those that failed before.
    Returns whether there are more proven handlers now."""
    proofs, before = ProvenRuntimes(directory / FOLDER), len(handlers.proven)
    for name, flavors in TRIED.items():
        if flavors[0].find() is None or name in handlers.proven:
            continue
        flavor = proofs.find(name)
        if flavor is not None:
            handlers.proven[name] = OciRuntime(flavor, directory / name, cgroups)
            continue
        await _prove(handlers, name, flavors, directory / name, cgroups, canary)
        if (proven := handlers.proven.get(name)) is not None and isinstance(proven, OciRuntime):
            proofs.keep(proven.flavor)
    return len(handlers.proven) > before


async def _prove(
    handlers: RuntimeHandlers,
    name: HandlerName,
    flavors: tuple[RuntimeFlavor, ...],
    directory: Path,
    cgroups: Cgroups,
    canary: Canary,
) -> None:
    errors: list[str] = []
    for flavor in flavors:
        try:
            # In a directory of its own, apart from pods that an earlier agent process may have left running.
            probe = OciRuntime(flavor, directory / "canary", cgroups)
            async with asyncio.timeout(CANARY_SECONDS_MAX):
                await canary(probe)
            runtime = OciRuntime(flavor, directory, cgroups)
        except TimeoutError:
            errors.append(f"it did not run a container within {CANARY_SECONDS_MAX:.0f} seconds")
            continue
        except (RuntimeFailure, OSError) as error:
            errors.append(str(error) or type(error).__name__)
            continue
        handlers.proven[name] = runtime
        handlers.failed.pop(name, None)
        log.info("runtime proven", extra={"handler": name})
        return
    message = handlers.failed[name] = "; ".join(errors)
    log.warning("runtime failed its canary", extra={"handler": name, "error": message})
