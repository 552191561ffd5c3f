"""What is written on a container is read back as it was."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.podkey import PodKey
from alcove.agent.pods import marks
from alcove.agent.pods.marks import Mark
from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId

_TEXT = st.text("abc-./ =09", min_size=1, max_size=20)


@given(_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, st.text(max_size=10), st.integers(0, 10_000))
def test_labels_bring_it_back(
    plane: str, tenant: str, namespace: str, name: str, uid: str, container: str, attempt: int
) -> None:
    key = PodKey(PlaneId(plane), TenantId(tenant), namespace, name, uid)
    mark = Mark(key, container, attempt, "image", "id", "/path", "SIGTERM", "sha256:1")
    assert marks.read(mark.labels()) == mark


def test_what_is_no_pods_has_none() -> None:
    assert marks.read({"other": "label"}) is None
    assert marks.read({}) is None


def test_ids_of_sandboxes_and_containers_differ() -> None:
    key = PodKey(PlaneId("p"), TenantId("t"), "n", "m", "u")
    assert marks.sandbox_id(key, 0) != marks.container_id(key, "0", 0)
