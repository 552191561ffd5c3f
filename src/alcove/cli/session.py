"""API access for commands: objects by resource and tenant, and waiting for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from alcove.api.errors import ApiError, Conflict, NotFound, from_status
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.cli.connection import CliConnection, load
from alcove.cli.data_directories import default_kubeconfig
from alcove.cli.errors import CliError, ExitCode
from alcove.client import paths
from alcove.client.resources import Resource

POLL_SECONDS = 0.05
POLL_SECONDS_MAX = 0.5

T = TypeVar("T")


class CliSession:
    """Requests as the user of a kubeconfig. Every call may raise ApiError or ConnectionFailed."""

    def __init__(self, kubeconfig: Path | None = None, context: str = "") -> None:
        self.kubeconfig = kubeconfig or default_kubeconfig()
        self.connection = CliConnection(load(self.kubeconfig, context))

    def items(
        self, resource: Resource, tenant: str = SYSTEM, namespace: str = "", **query: str
    ) -> list[Object]:
        return self.items_at(resource, tenant, namespace, **query)[0]

    def items_at(
        self, resource: Resource, tenant: str = SYSTEM, namespace: str = "", **query: str
    ) -> tuple[list[Object], str]:
        """The items, and the revision to watch from."""
        path = paths.collection(TenantId(tenant), resource, namespace)
        answer = self.connection.request("GET", paths.with_query(path, query))
        version = resource.root.removeprefix("/apis/").removeprefix("/api/")
        kind = {"apiVersion": version, "kind": resource.kind}
        return [{**kind, **item} for item in answer["items"]], answer["metadata"]["resourceVersion"]

    def watch(
        self, resource: Resource, since: str, tenant: str = SYSTEM, namespace: str = "", **query: str
    ) -> Iterator[tuple[str, Object]]:
        """Changes after the revision `since`, as (ADDED, MODIFIED or DELETED, object). Never ends."""
        path = paths.collection(TenantId(tenant), resource, namespace)
        while True:
            parameters = {**query, "watch": "1", "resourceVersion": since}
            for event in self.connection.lines(paths.with_query(path, parameters)):
                if event["type"] == "ERROR":
                    raise from_status(event["object"])
                since = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]

    def get(self, resource: Resource, name: str, tenant: str = SYSTEM, namespace: str = "") -> Object:
        path = paths.one(TenantId(tenant), resource, namespace, name)
        existing: Object = self.connection.request("GET", path)
        return existing

    def find(self, resource: Resource, name: str, tenant: str = SYSTEM, namespace: str = "") -> Object | None:
        try:
            return self.get(resource, name, tenant, namespace)
        except NotFound:
            return None

    def create(
        self,
        resource: Resource,
        obj: Object,
        tenant: str = SYSTEM,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Creates `obj`, or with `subresource` that of the object it names, such as a pod's eviction."""
        path = paths.collection(TenantId(tenant), resource, namespace)
        if subresource:
            path = paths.one(TenantId(tenant), resource, namespace, obj["metadata"]["name"], subresource)
        created: Object = self.connection.request("POST", path, obj)
        return created

    def ensure(self, resource: Resource, obj: Object, tenant: str = SYSTEM, namespace: str = "") -> Object:
        """Creates the object, or returns the existing one unchanged."""
        name = obj["metadata"]["name"]
        existing = self.find(resource, name, tenant, namespace)
        if existing is not None:
            return existing
        try:
            return self.create(resource, obj, tenant, namespace)
        except ApiError as error:
            if error.code != Conflict.code:
                raise
            return self.get(resource, name, tenant, namespace)

    def patch(
        self, resource: Resource, name: str, change: Object, tenant: str = SYSTEM, namespace: str = ""
    ) -> Object:
        path = paths.one(TenantId(tenant), resource, namespace, name)
        headers = {"Content-Type": "application/merge-patch+json"}
        changed: Object = self.connection.request("PATCH", path, change, headers)
        return changed

    def delete(
        self, resource: Resource, name: str, tenant: str = SYSTEM, namespace: str = "", **options: Any
    ) -> None:
        path = paths.one(TenantId(tenant), resource, namespace, name)
        self.connection.request("DELETE", path, options or None)


def wait_for(description: str, check: Callable[[], T | None], seconds_max: float) -> T:
    """The first result of `check` that is not None. Raises CliError on timeout. `description` completes
    "waiting for"."""
    deadline = time.monotonic() + seconds_max
    pause = POLL_SECONDS
    while True:
        if (answer := check()) is not None:
            return answer
        if time.monotonic() >= deadline:
            raise CliError(
                f"timed out after {seconds_max:g} s waiting for {description}; see --timeout",
                ExitCode.TIMEOUT,
            )
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, POLL_SECONDS_MAX)
