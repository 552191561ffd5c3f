"""The OCI runtimes that the driver can use, and the script each is called by on this machine.

A script, because each has a way of its own that the machine may need: `crun` fails where an empty version 2
hierarchy is mounted beside version 1, so it is called where that is not to be seen; `runsc` of some versions
fails on newer kernels unless /proc/sys/net is hidden from it, and its containers are no processes of this
machine, so that one that waits stands in for each. Mounts are changed in a mount namespace of the call's own.
"""

import shlex
import shutil
from pathlib import Path

from msgspec import Struct

from alcove.agent.cgroups import CgroupLayout, Cgroups
from alcove.agent.runtime.base import HandlerName, Isolation

_DIRECT = """\
#!/bin/sh
# What makes no control groups needs no other view of them, and is called often.
case $1 in start | kill | state) exec {plain} "$@" ;; esac
exec {call} "$@"
"""

_STAND_IN = """\
#!/bin/sh
# conmon waits for a process of this machine; a container in gVisor is none. So one that waits for it
# stands in: its id goes into the file where conmon looks, and it exits as the container does. It also
# starts the container when told to: what starts it gives it its streams, and must be conmon's child, so that
# conmon buries what the start leaves behind.
# Only what makes and starts containers is called in a mount namespace of its own: a process that stays, to
# wait or for somebody's shell, would keep every volume mounted there that the node has at that moment.
[ "$1" = create ] || exec {plain} "$@"
for word in "$@"; do
    case ${{before-}} in --bundle) bundle=$word ;; --pid-file) pid_file=$word ;; esac
    before=$word
done
mkfifo "$bundle/{go}" || exit
{call} "$@" || exit
exec 3<&0
(
    # Whoever would say so may have been killed: without its bundle the container is nobody's.
    until timeout {look} head -c 1 "$bundle/{go}" >/dev/null 2>&1; do
        [ -p "$bundle/{go}" ] || exit 255
    done
    if {call} --log="$bundle/{start_log}" start "$word"; then
        : >"$bundle/{started}"
    else
        : >"$bundle/{failed}"
        exit 255
    fi
    exec </dev/null >/dev/null 2>&1 3<&-
    told=$({plain} wait "$word") || exit 255
    code=${{told##*:}}
    code=${{code%%[!0-9]*}}
    exit "${{code:-255}}"
) <&3 &
echo "$!" >"$pid_file"
"""

STARTED, FAILED = "started", "failed"
"""Files in a bundle that say that its container was started, or could not be."""
LOOK_SECONDS = 5
"""How often one who stands in looks whether its bundle is still there while it waits to be told to start."""
GO, START_LOG = "go", "start.log"
"""The pipe by which one who stands in is told to start, and what the runtime has to say about it."""


class RuntimeFlavor(Struct, frozen=True):
    handler: HandlerName
    binary: str
    isolation: Isolation
    options: tuple[str, ...] = ()
    hides_proc_sys_net: bool = False

    def find(self) -> str | None:
        """Where the program is; None: not installed."""
        return shutil.which(self.binary, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


CRUN = RuntimeFlavor(HandlerName("crun"), "crun", Isolation.NAMESPACES)
RUNC = RuntimeFlavor(HandlerName("runc"), "runc", Isolation.NAMESPACES)
GVISOR = RuntimeFlavor(
    HandlerName("gvisor"),
    "runsc",
    Isolation.SANDBOX,
    ("--platform=systrap", "--overlay2=none", "--network=sandbox"),
)
GVISOR_HIDING = RuntimeFlavor(
    GVISOR.handler, GVISOR.binary, GVISOR.isolation, GVISOR.options, hides_proc_sys_net=True
)
"""For kernels whose /proc/sys/net the version of gVisor does not understand."""


def script(flavor: RuntimeFlavor, program: str, root: Path, cgroups: Cgroups) -> str:
    """The text of the script that calls `program` with its state in `root`."""
    words = [program, f"--root={root}", *flavor.options]
    call = plain = shlex.join(words)
    hiding = _hiding(flavor, cgroups)
    if hiding:
        inner = f'{hiding} && exec "$0" "$@"'
        prefix = ["unshare", "--mount", "--propagation=private", "/bin/sh", "-c", inner]
        call = shlex.join([*prefix, *words])
    if flavor.isolation is Isolation.SANDBOX:
        return _STAND_IN.format(
            call=call,
            plain=plain,
            go=GO,
            look=LOOK_SECONDS,
            started=STARTED,
            failed=FAILED,
            start_log=START_LOG,
        )
    return _DIRECT.format(call=call, plain=plain)


def _hiding(flavor: RuntimeFlavor, cgroups: Cgroups) -> str:
    if flavor.hides_proc_sys_net:
        return "mount -t tmpfs -o ro tmpfs /proc/sys/net"
    if flavor.binary == CRUN.binary and cgroups.layout is CgroupLayout.HYBRID:
        return f"umount {shlex.quote(str(cgroups.unified))}"
    return ""
