"""A cluster of this machine: what it is called, where everything of it is, and what was asked of it.

Everything it has in the kernel is named after its `token`, so that clusters live side by side and each can be
taken away without the others. What was asked (`cluster.json`) survives; what is in the kernel does not have to.
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
"""Hollow nodes of all clusters share this machine's loopback: theirs go on from there."""
RANGE = IPv4Network("10.250.0.0/16")
"""Underlays of all clusters of a machine: one /24 each."""
RUN = Path("/run/alcove")
"""What does not survive a reboot."""
TOKENS = 36 * 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class LocalNode(Struct, frozen=True):
    name: str
    number: int
    instance: str
    """At most four characters: the data plane's name for it."""
    namespace: str
    address: IPv4Address
    port: int
    """Of the agent's server."""
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "node.kubeconfig"


class LocalCluster(Struct, frozen=True, kw_only=True):
    data: Path
    name: str
    number: int
    """Below TOKENS; gives the token and the underlay."""
    port: int
    nodes: int = 1
    hollow: bool = False
    """Nodes only pretend to run pods: no namespaces, no root."""
    hollow_tenants: bool = False
    """Nodes run ring0's pods, and only pretend to run tenants': gVisor fails its trial on this machine."""
    listen: tuple[str, ...] = ()
    """Further addresses of this machine that the API server is reached by."""
    log_level: Level = Level.INFO
    log_format: Form = Form.TEXT

    @classmethod
    def of_token(cls, data: Path, token: str) -> LocalCluster:
        """Enough of one whose `cluster.json` is damaged to take away what it has in the kernel."""
        return cls(data=data, name=token, number=int(token, 36), port=0, nodes=NODES_MAX)

    @property
    def token(self) -> str:
        return _DIGITS[self.number // 36] + _DIGITS[self.number % 36]

    @property
    def underlay(self) -> IPv4Network:
        return list(RANGE.subnets(new_prefix=24))[self.number % 256]

    @property
    def gateway(self) -> IPv4Address:
        """This machine, as nodes see it."""
        return self.underlay.network_address + 1

    @property
    def uplink(self) -> str:
        """The one link this machine has into the underlay."""
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
        """Numbers begin with 1."""
        name = f"node-{number}"
        local = IPv4Address("127.0.0.1")
        return LocalNode(
            name=name,
            number=number,
            instance=self.token + (_DIGITS[number // 36] if number > 35 else "") + _DIGITS[number % 36],
            namespace=f"alcove-{self.token}-{name}",
            address=local if self.hollow else self.underlay.network_address + 10 + number,
            port=AGENT_PORT + NODES_MAX * (self.number % 256) + number - 1 if self.hollow else AGENT_PORT,
            folder=self.data / "nodes" / name,
        )

    def all_nodes(self) -> list[LocalNode]:
        return [self.node(number) for number in range(1, self.nodes + 1)]

    def save(self) -> None:
        kept = msgspec.json.format(msgspec.json.encode(self._kept()), indent=2)
        fresh = _file(self.data).with_suffix(".new")
        fresh.write_bytes(kept)
        fresh.replace(_file(self.data))

    def _kept(self) -> dict[str, object]:
        """Without the folder: it may be moved."""
        return {field: getattr(self, field) for field in self.__struct_fields__ if field != "data"}


class BadCluster(Exception):
    """`cluster.json` is not one; the message says what to do."""


def load(data: Path) -> LocalCluster | None:
    """What was asked of the cluster there; None: there is none. Raises BadCluster."""
    try:
        content = _file(data).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        kept = msgspec.json.decode(content)
        return msgspec.convert({**kept, "data": data}, LocalCluster)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError) as error:
        raise BadCluster(
            f"{_file(data)} is damaged ({error}); mend it, or remove it and `up` again"
        ) from error


def first_number(data: Path) -> int:
    """Where to begin to look for a free number: the same for the same folder."""
    digest = hashlib.blake2b(os.fsencode(data.resolve()), digest_size=4).digest()
    return int.from_bytes(digest, "big") % TOKENS


def _file(data: Path) -> Path:
    return data / "cluster.json"
