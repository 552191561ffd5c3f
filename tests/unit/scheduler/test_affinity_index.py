"""Who is picked by whom is the same whether found by shelves or by asking everybody."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.objects import Object
from alcove.scheduler.groups import picks
from alcove.scheduler.nodes import ZONE
from alcove.testing.scheduling import TENANT, Scene, far, near, node, pod, spread, wishes

_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
_expression = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        **({"values": values} if operator in ("In", "NotIn") else {}),
    },
    st.sampled_from(["app", "tier"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True),
)
_selector = st.one_of(
    st.builds(lambda labels: {"matchLabels": labels}, _labels),
    st.builds(lambda each: {"matchExpressions": each}, st.lists(_expression, max_size=2)),
)
_namespaces = st.lists(st.sampled_from(["default", "else"]), max_size=2, unique=True)


@st.composite
def _terms(draw: st.DrawFn) -> Object:
    term: Object = {"labelSelector": draw(_selector), "topologyKey": ZONE}
    if draw(st.booleans()):
        term["namespaces"] = draw(_namespaces)
    if draw(st.integers(0, 3)) == 0:
        term["namespaceSelector"] = draw(st.sampled_from([{}, {"matchLabels": {"team": "x"}}]))
    return term


@st.composite
def _pods(draw: st.DrawFn) -> Object:
    term = draw(_terms())
    choices: list[Object] = [
        {},
        {"affinity": near(term, draw(_terms()))},
        {"affinity": far(term)},
        {"affinity": wishes(5, term)},
        {"topologySpreadConstraints": [spread({"app": "a"}, ZONE)]},
    ]
    asking = draw(st.sampled_from(choices))
    namespace = draw(st.sampled_from(["default", "else"]))
    return pod("p", draw(_labels), namespace=namespace, owner=draw(st.sampled_from(["", "rs"])), **asking)


@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(st.lists(_pods(), min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=4), st.booleans())
def test_shelves_lose_nobody(objects: list[Object], gone: list[int], relabel: bool) -> None:
    scene = Scene(node("n", {ZONE: "z"}))
    book = scene.cache.affinity_index(TENANT)
    pods = [scene.pod(obj) for obj in objects]
    if relabel:
        book.set_namespace("else", {"team": "x"})
    for index in gone:
        if index < len(pods):
            scene.tracker.release(pods.pop(index))
    links = [each.shape.links for each in pods]
    selections = {
        selection
        for link in links
        for selection in (*link.near, *link.far, *link.preferred, *link.spread_hard, *link.spread_soft)
    }
    rules = {rule for link in links for rule in link.rules}
    for each in pods:
        group = each.group
        asked = {one for one in selections if picks(one.picked, group, book.namespaces)}
        assert set(group.selections) == asked and len(group.selections) == len(asked)
        speaking = {one for one in rules if picks(one.key.term.picked, group, book.namespaces)}
        assert set(book.rules_about(group)) == speaking
