"""Files in volumes, read and written by `tar` in a pod of the tenant that mounts the claim.

So they pass through the API server and the node's agent as any `kubectl exec` does, the pod's sandbox bounds what an archive can do,
and a claim that waits for its first consumer gets its volume from this pod. Nothing is kept in memory or on a node's disk.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import TenantId
from alcove.api.objects import Object, get
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError, ExitCode
from alcove.cli.kubeconfig import server_url
from alcove.cli.tenant_backup.claims import Claim
from alcove.client import paths
from alcove.client.resources import PODS

IMAGE = "alcove/busybox"
CHUNK_BYTES = 256 << 10
READY_SECONDS_MAX = 180.0
LIFE_SECONDS_MAX = 24 * 3_600
"""A pod whose command was killed ends by itself."""
LABEL = "alcove.io/backup"
_MOUNTED = "/volume"
_MESSAGE_BYTES_MAX = 2_000
_POLL_SECONDS = 0.25


class VolumePods:
    """Pods of one tenant that read or write volumes."""

    def __init__(
        self, connection: CliConnection, kubeconfig: Path, tenant: str, headers: dict[str, str] | None = None
    ) -> None:
        """`headers` are sent with requests for pods, for example to impersonate. Raises CliError without kubectl."""
        program = shutil.which("kubectl")
        if program is None:
            raise CliError("kubectl is not installed; files in volumes are read and written by it")
        self._connection = connection
        self._tenant = TenantId(tenant)
        self._headers = headers or {}
        server = server_url(connection.server, tenant)
        self._kubectl = [program, f"--kubeconfig={kubeconfig}", f"--server={server}"]

    def read(self, claim: Claim) -> Iterator[bytes]:
        """The files of the volume, as a tar archive. Raises CliError, ApiError."""
        with self._pod(claim, is_read_only=True) as pod, tempfile.TemporaryFile() as errors:
            command = self._exec(claim, pod, ("tar", "-C", _MOUNTED, "-c", "."))
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
                assert process.stdout is not None
                try:
                    while chunk := process.stdout.read(CHUNK_BYTES):
                        yield chunk
                except BaseException:
                    process.kill()
                    raise
            _check(process, errors, f"cannot read the volume of claim {claim}")

    @contextmanager
    def writing(self, claim: Claim) -> Iterator[IO[bytes]]:
        """Takes a tar archive, whose files are in the volume when the block ends. Raises CliError, ApiError."""
        what = f"cannot write the volume of claim {claim}"
        with self._pod(claim, is_read_only=False) as pod, tempfile.TemporaryFile() as errors:
            command = self._exec(claim, pod, ("tar", "-C", _MOUNTED, "-x", "-p"), "-i")
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors
            ) as process:
                assert process.stdin is not None
                try:
                    yield process.stdin
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # What it has said is in the error below.
                except BaseException:
                    process.kill()
                    raise
            _check(process, errors, what)

    def _exec(self, claim: Claim, pod: str, words: tuple[str, ...], *options: str) -> list[str]:
        return [*self._kubectl, "exec", *options, f"--namespace={claim.namespace}", pod, "--", *words]

    @contextmanager
    def _pod(self, claim: Claim, *, is_read_only: bool) -> Iterator[str]:
        made = pod_for(claim, is_read_only=is_read_only)
        name = made["metadata"]["name"]
        collection = paths.collection(self._tenant, PODS, claim.namespace)
        path = paths.one(self._tenant, PODS, claim.namespace, name)
        deadline = time.monotonic() + READY_SECONDS_MAX
        self._create(collection, path, made, deadline)
        try:
            self._wait_until_ready(claim, path, deadline)
            yield name
        finally:
            self._delete(path)

    def _create(self, collection: str, path: str, pod: Object, deadline: float) -> None:
        while True:
            try:
                self._connection.request("POST", collection, pod, self._headers)
                return
            except AlreadyExists:
                # Of a command that was killed, or it is being deleted.
                if time.monotonic() > deadline:
                    raise
                self._delete(path)
                time.sleep(_POLL_SECONDS)

    def _wait_until_ready(self, claim: Claim, path: str, deadline: float) -> None:
        while True:
            pod = self._connection.request("GET", path, headers=self._headers)
            conditions = get(pod, "status", "conditions", default=())
            if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
                return
            if time.monotonic() > deadline or get(pod, "status", "phase") == "Failed":
                message = f"the pod that mounts claim {claim} does not run"
                raise CliError(f"{message}: {_why(pod)}", ExitCode.TIMEOUT)
            time.sleep(_POLL_SECONDS)

    def _delete(self, path: str) -> None:
        body: Object = {"gracePeriodSeconds": 0}
        try:
            self._connection.request("DELETE", path, body, self._headers)
        except NotFound:
            pass


def pod_for(claim: Claim, *, is_read_only: bool) -> Object:
    digest = hashlib.sha256(claim.name.encode()).hexdigest()[:16]
    source = {"claimName": claim.name, "readOnly": is_read_only}
    container = {
        "name": "tar",
        "image": IMAGE,
        "command": ["sleep", str(LIFE_SECONDS_MAX)],
        "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "volume", "mountPath": _MOUNTED, "readOnly": is_read_only}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "128Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"alcove-backup-{digest}", "labels": {LABEL: "volume"}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFE_SECONDS_MAX,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [{"name": "volume", "persistentVolumeClaim": source}],
        },
    }


def _why(pod: Object) -> str:
    for condition in get(pod, "status", "conditions", default=()):
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    for status in get(pod, "status", "containerStatuses", default=()):
        if message := get(status, "state", "waiting", "message", default=""):
            return str(message)
    return str(get(pod, "status", "message", default="") or "it is not ready in time")


def _check(process: subprocess.Popen[bytes], errors: IO[bytes], what: str) -> None:
    if process.returncode:
        errors.seek(0)
        said = errors.read(_MESSAGE_BYTES_MAX).decode(errors="replace").strip()
        raise CliError(f"{what}: {said or f'exit code {process.returncode}'}")
