from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.network import owners
from alcove.network.owners import OwnerRef, TenantNetworkId

BLUE = TenantNetworkId(TenantId("acme"), "blue")


def test_marks_are_read_back() -> None:
    obj = owners.mark_made({"metadata": {"name": "x"}}, BLUE)
    assert owners.owner_of(obj) == BLUE and owners.is_made(obj)
    assert list(owners.by_network(obj)) == ["acme/blue"]
    assert owners.owner_of({"metadata": {}}) is None


def test_only_what_was_attached_is_freed() -> None:
    attached: Object = {"metadata": {}}
    owners.mark_attached(attached, BLUE)
    owners.unmark(attached)
    assert owners.owner_of(attached) is None
    reserved: Object = {"metadata": {"annotations": {owners.NETWORK_MARK: "acme/blue"}}}
    owners.unmark(reserved)
    assert owners.owner_of(reserved) == BLUE, "ring0 reserved it"


def test_what_an_endpoint_is_for() -> None:
    ref = OwnerRef(TenantId("acme"), "default", "web")
    assert OwnerRef.parse(str(ref)) == ref
    for other in ("", "web", "a/b", "a//c", "a/b/c/d"):
        assert OwnerRef.parse(other) is None
