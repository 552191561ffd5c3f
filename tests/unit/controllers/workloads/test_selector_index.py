"""Which objects select another, by an index of their selectors."""

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import SERVICES
from alcove.controllers.workloads.selector_index import SelectorIndex, plain_selector

WEB = ObjectKey(HOME, TenantId("a"), "default", "web")
POD: Object = {"metadata": {"labels": {"app": "web"}}}


def test_a_service_without_a_selector_takes_no_memory_and_selects_nothing() -> None:
    mirror = Mirror(ListSelection(SERVICES))
    plane = mirror.add_plane(HOME)
    index = SelectorIndex(mirror, plain_selector)
    metadata = {"tenant": "a", "namespace": "default", "name": "web"}
    selectors: tuple[dict[str, str], ...] = ({}, {"app": "web"}, {})
    found = []
    for revision, selector in enumerate(selectors, 1):
        plane.put({"metadata": metadata, "spec": {"selector": selector}}, Revision(revision))
        found.append([key.name for key in index.matching(WEB, POD)])
        assert bool(index._selectors) is bool(selector)
        assert index.get(WEB).matches({"app": "web"}) is bool(selector)
    assert found == [[], ["web"], []]
    plane.remove({"metadata": metadata}, Revision(9))
    assert not index._selectors
