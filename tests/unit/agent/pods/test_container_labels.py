"""Labels of a container are read back as they were written."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.runtime.users import User
from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId

_TEXT = st.text("abc-./ =09", min_size=1, max_size=20)


@given(_TEXT, _TEXT, _TEXT, _TEXT, _TEXT, st.text(max_size=10), st.integers(0, 10_000))
def test_labels_bring_it_back(
    plane: str, tenant: str, namespace: str, name: str, uid: str, container: str, attempt: int
) -> None:
    key = PodKey(PlaneId(plane), TenantId(tenant), namespace, name, uid)
    for user in (None, User(0, 0), User(1000, 7, (8, 9))):
        mark = ContainerMark(key, container, attempt, "image", "id", "/path", "SIGTERM", "sha256:1", user)
        assert container_labels.read(mark.labels()) == mark


def test_what_is_no_pods_has_none() -> None:
    assert container_labels.read({"other": "label"}) is None
    assert container_labels.read({}) is None


def test_ids_of_sandboxes_and_containers_differ() -> None:
    key = PodKey(PlaneId("p"), TenantId("t"), "n", "m", "u")
    assert container_labels.sandbox_id(key, 0) != container_labels.container_id(key, "0", 0)
