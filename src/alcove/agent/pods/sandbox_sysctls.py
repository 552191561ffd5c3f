"""Sysctls of pods in a sandbox with its own kernel, which ignores those of its configuration (gVisor).

They are written inside the sandbox, before a container of the pod starts. Such a kernel has few of them, and ignores
what is written to others: each is read again, and a pod is refused if it would run without one of its sysctls.
"""

from __future__ import annotations

from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime import security
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ExecSession
from alcove.api.objects import Object

_WITHOUT_EFFECT = frozenset(["net.ipv4.ip_unprivileged_port_start"])
"""gVisor restricts no ports."""
_TO_PATH = str.maketrans("./", "/.")
_SCRIPT = """\
set -f
index=0
while [ $# -gt 0 ]; do
    index=$((index + 1))
    { printf '%s' "$2" >"/proc/sys/$1"; } 2>/dev/null
    [ "$(echo $(cat "/proc/sys/$1" 2>/dev/null))" = "$(echo $2)" ] || exit $index
    shift 2
done
"""
"""Its arguments are paths and values in turn; its exit code is the number of the first that has another value, or
0."""


async def apply(runtime: ContainerRuntime, sandbox: ContainerId, spec: Object) -> None:
    """Raises PodRejected if the sandbox does not support a sysctl, and RuntimeFailure."""
    sysctls = [each for each in security.sysctls_of(spec).items() if each[0] not in _WITHOUT_EFFECT]
    if not sysctls:
        return
    words = [word for name, value in sysctls for word in (name.translate(_TO_PATH), value)]
    failed = await runtime.exec(sandbox, ExecSession(["sh", "-c", _SCRIPT, "sh", *words]))
    if failed:
        name, value = sysctls[min(failed, len(sysctls)) - 1]
        message = f'sysctl {name} cannot be set to "{value}" by {runtime.handler}'
        raise PodRejected("SysctlForbidden", f"{message}: use a RuntimeClass with handler crun or runc")
