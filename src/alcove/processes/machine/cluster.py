"""A local cluster: its names, paths and configuration.

All its kernel objects are named after its `token`, so that clusters can coexist and each can be removed
without the others. The configuration (`cluster.json`) is persistent; kernel objects are recreated from it.
"""

from __future__ import annotations

import hashlib
import os
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.component.logs import Form, Level

NODES_MAX = 64
AGENT_PORT = 10250
"""Port of real nodes' agents. Hollow nodes share the loopback address: their ports follow this one."""
RANGE = IPv4Network("10.250.0.0/16")
"""Range of all local clusters' underlays: one /24 each."""
RUN = Path("/run/alcove")
"""State that does not survive a reboot."""
TOKENS = 36 * 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class LocalNode(Struct, frozen=True):
    name: str
    number: int
    instance: str
    """The data plane's name for the node, at most four characters."""
    namespace: str
    address: IPv4Address
    port: int
    """Port of the agent's API server."""
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "node.kubeconfig"


class LocalCluster(Struct, frozen=True, kw_only=True):
    data: Path
    name: str
    number: int
    """Less than TOKENS; determines the token and the underlay."""
    port: int
    nodes: int = 1
    hollow: bool = False
    """Hollow nodes: no namespaces, no root."""
    hollow_tenants: bool = False
    """Tenants' pods are hollow, ring0's run: gVisor fails its trial on this machine."""
    listen: tuple[str, ...] = ()
    """Additional local addresses of the API server."""
    insecure_registries: tuple[str, ...] = ()
    """HOST[:PORT] of registries without TLS, from which nodes pull images."""
    usage_interval_seconds: int | None = None
    """How often what tenants use is read and summed up; None for what the processes do by themselves."""
    log_level: Level = Level.INFO
    log_format: Form = Form.TEXT

    @classmethod
    def of_token(cls, data: Path, token: str) -> LocalCluster:
        """A cluster with a damaged `cluster.json`: enough to remove its kernel objects."""
        return cls(data=data, name=token, number=int(token, 36), port=0, nodes=NODES_MAX)

    @property
    def token(self) -> str:
        return _DIGITS[self.number // 36] + _DIGITS[self.number % 36]

    @property
    def underlay(self) -> IPv4Network:
        return list(RANGE.subnets(new_prefix=24))[self.number % 256]

    @property
    def gateway(self) -> IPv4Address:
        """This machine's address on the underlay."""
        return self.underlay.network_address + 1

    @property
    def uplink(self) -> str:
        """This machine's network device on the underlay."""
        return f"al{self.token}"

    @property
    def underlay_namespace(self) -> str:
        return f"alcove-{self.token}-underlay"

    @property
    def table(self) -> str:
        return f"alcove_{self.token}"

    @property
    def run(self) -> Path:
        return RUN / self.token

    @property
    def bpf(self) -> Path:
        return self.run / "bpf"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    def node(self, number: int) -> LocalNode:
        """Node numbers start at 1."""
        name = f"node-{number}"
        local = IPv4Address("127.0.0.1")
        return LocalNode(
            name=name,
            number=number,
            instance=self.token + (_DIGITS[number // 36] if number > 35 else "") + _DIGITS[number % 36],
            namespace=f"alcove-{self.token}-{name}",
            address=local if self.hollow else self.underlay.network_address + 10 + number,
            port=AGENT_PORT + NODES_MAX * (self.number % 256) + number - 1 if self.hollow else AGENT_PORT,
            directory=self.data / "nodes" / name,
        )

    def all_nodes(self) -> list[LocalNode]:
        return [self.node(number) for number in range(1, self.nodes + 1)]

    def save(self) -> None:
        fields = msgspec.json.format(msgspec.json.encode(self._stored_fields()), indent=2)
        temporary = _file(self.data).with_suffix(".new")
        temporary.write_bytes(fields)
        temporary.replace(_file(self.data))

    def _stored_fields(self) -> dict[str, object]:
        """The fields of `cluster.json`: without the directory, which may be moved."""
        return {field: getattr(self, field) for field in self.__struct_fields__ if field != "data"}


class BadCluster(Exception):
    """`cluster.json` is invalid; the message says what to do."""


def load(data: Path) -> LocalCluster | None:
    """The configuration of the cluster in the directory. None if there is none. Raises BadCluster."""
    try:
        content = _file(data).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fields = msgspec.json.decode(content)
        return msgspec.convert({**fields, "data": data}, LocalCluster)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError) as error:
        raise BadCluster(
            f"{_file(data)} is damaged ({error}); fix it, or remove it and run `alcove up` again"
        ) from error


def first_number(data: Path) -> int:
    """First number to try for a new cluster, derived from its directory."""
    digest = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=4).digest()
    return int.from_bytes(digest, "big") % TOKENS


def _file(data: Path) -> Path:
    return data / "cluster.json"
