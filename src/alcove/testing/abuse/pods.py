"""Pods of a tenant that abuses its node. What they write is bounded: they run on machines of developers too."""

from __future__ import annotations

from alcove.api.objects import Object

TOKEN = "zqxattack"
"""Part of every hostile name, so that whatever is made of one is found on the host."""
HOSTILE = (
    f"../../../../../../../../tmp/{TOKEN}",
    f"0/../../../../volumes/pods/{TOKEN}",
    f"/tmp/{TOKEN}",
    f"{TOKEN}\x00/etc/passwd",
    f"{TOKEN}\nname: other\n",
    f"{TOKEN};touch /tmp/{TOKEN}",
    f"$(touch /tmp/{TOKEN})",
    "..",
    f"{TOKEN}-{'x' * 300}",
)
"""Names that would harm as a path, an id, a line of a file or a command."""


def _shell(command: str, **more: object) -> Object:
    return {"name": "main", "image": "alcove/busybox", "command": ["sh", "-c", command], **more}


def _volume(**empty: object) -> Object:
    return {"volumes": [{"name": "v", "emptyDir": empty}]}


_MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
_BURN = {"exec": {"command": ["sh", "-c", "while :; do :; done"]}, "periodSeconds": 1, "timeoutSeconds": 1}

BURNING: dict[str, Object] = {
    "forks": {"containers": [_shell("b() { b | b & b; }; while :; do b; sleep 1; done")]},
    "logs": {"containers": [_shell("yes 0123456789012345678901234567890 | head -c 2000000000; sleep 1000")]},
    "fills": {
        "containers": [
            _shell(
                "dd if=/dev/zero of=/v/a bs=1M count=512; dd if=/dev/zero of=/a bs=1M count=512; sleep 1000",
                **_MOUNT,
            )
        ],
        **_volume(sizeLimit="16Mi"),
    },
    "inodes": {
        "containers": [
            _shell("i=0; while [ $i -lt 200000 ]; do : >/v/$i; i=$((i+1)); done; sleep 1000", **_MOUNT)
        ],
        **_volume(),
    },
    "hosts": {
        "containers": [
            _shell(
                "for f in /etc/hosts /etc/hostname /etc/resolv.conf /dev/termination-log; do truncate -s 60G $f; done; exit 1"
            )
        ],
    },
    "probes": {
        "containers": [
            _shell("sleep 1000", livenessProbe={**_BURN, "failureThreshold": 1000}, readinessProbe=_BURN)
        ],
    },
}
"""Specs by name."""


def named(name: str, spec: Object, runtime_class: str = "") -> Object:
    chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, **chosen, **spec},
    }


def giant(name: str, node: str) -> Object:
    """A pod that names its node itself and requests more than any node has."""
    resources = {"requests": {"cpu": "256", "memory": "1Ti"}}
    return named(name, {"nodeName": node, "containers": [_shell("sleep 1000", resources=resources)]})


def sleeping(name: str, node: str) -> Object:
    return named(name, {"nodeName": node, "containers": [_shell("sleep 1000")]})


def tarpit(name: str, runtime_class: str = "") -> Object:
    """It accepts connections on port 8443 and never answers."""
    return named(name, {"containers": [_shell("nc -lk -p 8443 -e sleep 1000")]}, runtime_class)
