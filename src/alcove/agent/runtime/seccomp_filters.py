"""Compiled seccomp profiles, for crun: compiling one takes it 15 ms, most of what it takes to create a container.

The first container with a profile has it compiled by crun, which leaves the filter in the container's state. Later ones
with the very same profile get that filter by an annotation. They are kept in memory only.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

import orjson
from msgspec import structs

from alcove.agent.runtime.base import ContainerSpec
from alcove.api.objects import Object

FILTERS_MAX = 64
"""Filters that are kept, each of about 12 KB; then all are forgotten. A node has a profile per set of capabilities."""
FILTER_BYTES_MAX = 4_096 * 8
"""Of the kernel: at most 4,096 instructions of 8 bytes."""
ANNOTATION = "run.oci.seccomp_bpf_data"
FILE = "seccomp.bpf"


class SeccompFilters:
    def __init__(self) -> None:
        self._compiled: dict[bytes, str] = {}
        """Filters in base64, by their profiles in JSON."""

    def with_filter(self, spec: ContainerSpec) -> ContainerSpec:
        """The container with the filter of its profile, if it is known."""
        compiled = self._compiled.get(_profile(spec.config))
        if compiled is None:
            return spec
        annotations = {**spec.config.get("annotations", {}), ANNOTATION: compiled}
        return structs.replace(spec, config={**spec.config, "annotations": annotations})

    def learn(self, config: Mapping[str, Object], state: Path) -> None:
        """Keeps the filter of a container that was created; `state` is crun's directory of it."""
        profile = _profile(config)
        if not profile or profile in self._compiled:
            return
        try:
            with (state / FILE).open("rb") as file:
                content = file.read(FILTER_BYTES_MAX + 1)
        except FileNotFoundError:
            return  # Another version of crun keeps it elsewhere.
        if content and len(content) <= FILTER_BYTES_MAX and len(content) % 8 == 0:
            if len(self._compiled) >= FILTERS_MAX:
                self._compiled.clear()
            self._compiled[profile] = base64.b64encode(content).decode()


def _profile(config: Mapping[str, Object]) -> bytes:
    """The container's profile; empty if it has none."""
    profile = config["linux"].get("seccomp")
    return orjson.dumps(profile) if profile else b""
