import pytest

from alcove.api.ids import GroupResource
from alcove.store.keys import resource_named, resource_text


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        (GroupResource("", "pods"), "pods"),
        (GroupResource("apps", "deployments"), "deployments.apps"),
        (GroupResource("arktos.futurewei.com", "networks"), "networks.arktos.futurewei.com"),
    ],
)
def test_resource_is_read_back_from_its_text(resource: GroupResource, text: str) -> None:
    assert resource_text(resource) == text
    assert resource_named(text) == resource
