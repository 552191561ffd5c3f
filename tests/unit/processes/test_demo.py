"""What the demo shows, decided from its world."""

from alcove.processes.demo import LONE, WEB, steps, topology


def test_both_tenants_ask_for_the_same_address_and_expect_their_own() -> None:
    shown = topology(["node-1", "node-2"])
    played = steps(shown, dict.fromkeys(shown.networks, "10.96.0.3"))
    web = {act.check.source.tenant: act.check.expected for act in played if act.check.target == WEB}
    assert web == {"red": {"red/vpc/web"}, "blue": {"blue/vpc/web"}}
    lone = {act.check.source.tenant: act.check.expected for act in played if act.check.target == LONE}
    assert lone == {"blue": {"blue/vpc/lone"}, "red": frozenset()}
    assert len({act.title for act in played}) == len(played)


def test_with_two_nodes_client_and_server_are_on_different_ones() -> None:
    for nodes in (["a"], ["a", "b"], ["a", "b", "c"]):
        shown = topology(nodes)
        places = {pod.name: pod.node for pod in shown.pods if pod.tenant == "red"}
        assert (places["client"], places["web"]) == (nodes[0], nodes[-1])
