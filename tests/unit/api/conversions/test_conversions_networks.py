from alcove.api.conversions import networks


def test_both_spellings_of_the_vpc_become_one() -> None:
    served = {"apiVersion": "v1", "kind": "Network", "spec": {"type": "vpc", "vpc-id": "v"}}
    stored = {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "Network",
        "spec": {"type": "vpc", "vpcID": "v"},
    }

    assert networks.to_storage(served) == stored
    assert served["spec"] == {"type": "vpc", "vpc-id": "v"}, "converted, not changed"
    assert networks.from_storage(stored) == {**stored, "apiVersion": "v1"}


def test_arktos_spelling_wins() -> None:
    both = {"apiVersion": "v1", "spec": {"vpcID": "a", "vpc-id": "b"}}
    assert networks.to_storage(both)["spec"] == {"vpcID": "a"}
