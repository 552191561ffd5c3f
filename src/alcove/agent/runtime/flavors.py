"""The OCI runtimes that the driver can use, and the wrapper script by which each is called.

The scripts work around limits of the runtimes. `crun` fails if an empty cgroup v2 hierarchy is mounted beside
v1, so it is called in a mount namespace without that mount. Some versions of `runsc` fail on newer kernels
unless /proc/sys/net is hidden. A sandbox of gVisor wakes up every 0.4 ms, also if its pod does nothing, so it gets
coarser timers. And a container in gVisor is no process of the host, so a proxy process waits for each.
"""

import shlex
import shutil
from pathlib import Path

from msgspec import Struct

from alcove.agent.cgroups import CgroupLayout, Cgroups
from alcove.agent.runtime.base import HandlerName, Isolation

CGROUPS_VARIABLE = "ALCOVE_CGROUPS"
"""An environment variable of the scripts: files named cgroup.procs of the cgroups to enter, separated by colons."""
WAIT_CGROUPS_VARIABLE = "ALCOVE_WAIT_CGROUPS"
"""The same for the proxy process of a container in gVisor, which enters them when it has started the container."""

_HEAD = """\
#!/bin/sh
IFS=:
for procs in ${{{cgroups}-}}; do echo 0 >"$procs" || exit; done
unset IFS {cgroups}
"""

_DIRECT = """\
exec {call} "$@"
"""

_PROXY = """\
# conmon waits for a process of the host; a container in gVisor is none. So a proxy process waits for the
# container: its pid is in the file that conmon reads, and it exits with the container's exit code. It also
# starts the container when signalled: the process that starts it passes its streams on, and must be conmon's
# child, so that conmon reaps the processes that the start leaves behind.
# Only create and start are called in a separate mount namespace: a long-running process (wait, exec) would
# keep all volumes mounted there that the node has at that moment.
# When a pod is out of memory, a command that waits for a process in it is killed before the pod's sandbox.
[ "$1" != exec ] || echo 1000 >/proc/self/oom_score_adj
[ "$1" = create ] || exec {plain} "$@"
for word in "$@"; do
    case ${{before-}} in --bundle) bundle=$word ;; --pid-file) pid_file=$word ;; esac
    before=$word
done
wait_cgroups=${{{wait_cgroups}-}}
unset {wait_cgroups}
mkfifo "$bundle/{go}" "$bundle/{done}" || exit
# The sandbox and its threads inherit this.
echo {timer_slack} >/proc/self/timerslack_ns
{call} "$@" || exit
# Open before the agent knows of the process: what it writes there is read later.
exec 3<&0 4<>"$bundle/{go}"
(
    # The agent may have been killed, and the bundle removed: check for it while waiting.
    until timeout {poll} head -c 1 <&4 >/dev/null 2>&1; do
        [ -p "$bundle/{go}" ] || exit 255
    done
    exec 4<&-
    if {call} --log="$bundle/{start_log}" start "$word"; then
        : >"$bundle/{started}"
        echo 1<>"$bundle/{done}"
    else
        : >"$bundle/{failed}"
        exit 255
    fi
    exec </dev/null >/dev/null 2>&1 3<&-
    # Only now: a pod that may use little CPU would start slowly otherwise. Out of memory, the pod loses one of its own
    # processes and not this one, without which its containers would count as lost.
    IFS=:
    for procs in $wait_cgroups; do echo 0 >"$procs"; done
    unset IFS
    echo -1000 >/proc/self/oom_score_adj
    result=$({plain} wait "$word") || exit 255
    code=${{result##*:}}
    code=${{code%%[!0-9]*}}
    exit "${{code:-255}}"
) <&3 &
echo "$!" >"$pid_file"
"""

STARTED, FAILED = "started", "failed"
"""Files in a bundle that exist if its container was started, or failed to start."""
POLL_SECONDS = 5
"""How often a proxy process checks that its bundle exists while it waits for the start signal."""
TIMER_SLACK_SECONDS = 0.005
"""By how much timers in a gVisor sandbox may be late. A sandbox without work takes 1 % of a core with it, where it takes
3.5 % with the kernel's 0.05 ms: the platform `systrap` measures latencies in periods of 0.4 ms."""
GO, DONE, START_LOG = "go", "done", "start.log"
"""The pipes that signal a proxy process to start the container, and the agent that it is started; the runtime's log of
the start."""


class RuntimeFlavor(Struct, frozen=True):
    handler: HandlerName
    binary: str
    isolation: Isolation
    options: tuple[str, ...] = ()
    hides_proc_sys_net: bool = False

    def find(self) -> str | None:
        """The path of the binary; None if it is not installed."""
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
"""For kernels whose /proc/sys/net the installed version of gVisor cannot read."""


def plain_command(flavor: RuntimeFlavor, program: str, root: Path, verb: str) -> list[str] | None:
    """The command without the script, for verbs that are called often and create no cgroups, so that they need no other
    view of the mounts; None for others."""
    is_plain = flavor.isolation is not Isolation.SANDBOX and verb in ("start", "kill", "state")
    return [program, f"--root={root}", *flavor.options] if is_plain else None


def script(flavor: RuntimeFlavor, program: str, root: Path, cgroups: Cgroups) -> str:
    """The text of the script that calls `program` with its state in `root`."""
    arguments = [program, f"--root={root}", *flavor.options]
    call = plain = shlex.join(arguments)
    hiding = _hiding(flavor, cgroups)
    if hiding:
        inner = f'{hiding} && exec "$0" "$@"'
        prefix = ["unshare", "--mount", "--propagation=private", "/bin/sh", "-c", inner]
        call = shlex.join([*prefix, *arguments])
    head = _HEAD.format(cgroups=CGROUPS_VARIABLE)
    if flavor.isolation is Isolation.SANDBOX:
        return head + _PROXY.format(
            call=call,
            plain=plain,
            go=GO,
            done=DONE,
            poll=POLL_SECONDS,
            started=STARTED,
            failed=FAILED,
            start_log=START_LOG,
            timer_slack=round(TIMER_SLACK_SECONDS * 1e9),
            wait_cgroups=WAIT_CGROUPS_VARIABLE,
        )
    return head + _DIRECT.format(call=call)


def _hiding(flavor: RuntimeFlavor, cgroups: Cgroups) -> str:
    """The command that hides a mount from the runtime; empty if none has to be."""
    if flavor.hides_proc_sys_net:
        return "mount -t tmpfs -o ro tmpfs /proc/sys/net"
    if flavor.binary == CRUN.binary and cgroups.layout is CgroupLayout.HYBRID:
        # Covered and not unmounted: crun makes directories there, and what is below may be read-only (systemd's).
        return f"mount -t tmpfs tmpfs {shlex.quote(str(cgroups.unified))}"
    return ""
