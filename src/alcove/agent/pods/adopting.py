"""What an earlier agent process left running: a view of a pod from its containers, as the runtime lists them.

A pod's status may have been written by any client of its tenant. It is read only for containers that the spec
names: a name that stands in a status alone never becomes an id or a path on this node.
"""

from collections.abc import Iterable

from alcove.agent.pods import marks
from alcove.agent.pods.containers import wanted
from alcove.agent.pods.marks import Mark
from alcove.agent.pods.view import Attempt, Seen, View
from alcove.agent.runtime.base import ContainerId, Phase, Status
from alcove.api.objects import Object

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def view_of(pod: Object | None, found: Iterable[Status]) -> View:
    """`pod` as the API has it: what it was told counts where nothing is left (the machine was started anew)."""
    view = View()
    marked = [(mark, status) for status in found if (mark := marks.read(status.labels)) is not None]
    for mark, status in sorted(marked, key=lambda each: each[0].attempt):
        if mark.container:
            _add(view.seen(mark.container), mark, status)
        else:
            view.sandbox, view.next_sandbox = status, mark.attempt + 1
    in_spec = {each.name for each in wanted(pod["spec"])} if pod is not None else set()
    for each in _told(pod):
        if each.get("name") in in_spec:
            _remember(view.seen(each["name"]), each)
    return view


def _add(seen: Seen, mark: Mark, status: Status) -> None:
    seen.next_attempt = mark.attempt + 1
    if status.phase is Phase.BROKEN:
        seen.stale = (*seen.stale, status.id)
        return
    if seen.previous is not None:
        seen.stale = (*seen.stale, seen.previous.status.id)
    seen.previous = seen.current
    seen.current = Attempt(mark.attempt, status, mark.image, mark.image_id)


def _told(pod: Object | None) -> Iterable[Object]:
    status = (pod or {}).get("status") or {}
    for field in _STATUSES:
        yield from status.get(field) or ()


def _remember(seen: Seen, told: Object) -> None:
    """What the API knows of a container: how often it ran, and how it was."""
    if told.get("containerID"):
        seen.next_attempt = max(seen.next_attempt, int(told.get("restartCount") or 0) + 1)
    current = seen.current
    if current is not None and current.is_running and _id(told) == current.status.id:
        seen.is_started = bool(told.get("started"))
        seen.is_ready = bool(told.get("ready"))


def _id(told: Object) -> ContainerId:
    return ContainerId(str(told.get("containerID") or "").partition("://")[2])
