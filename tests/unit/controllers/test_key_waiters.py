"""Who waits for what: woken in order, and forgotten with what made them wait."""

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey
from alcove.controllers.key_waiters import KeyWaiters


def key(name: str) -> ObjectKey:
    return ObjectKey(HOME, TenantId("a"), "default", name)


def test_who_came_first_is_woken_first_and_once() -> None:
    waiting = KeyWaiters()
    for name in ("x", "y", "z"):
        waiting.add(key(name), ["net"])
    assert waiting.take("net", 2) == [key("x"), key("y")]
    assert waiting.take("net") == [key("z")]
    assert waiting.take("net") == [] and len(waiting) == 0


def test_who_waits_for_several_things_is_woken_by_any() -> None:
    waiting = KeyWaiters()
    waiting.add(key("x"), ["one", "two", "one"])
    assert waiting.take("two") == [key("x")]
    assert waiting.take("one") == []


def test_a_later_wish_takes_the_place_of_an_earlier() -> None:
    waiting = KeyWaiters()
    waiting.add(key("x"), ["one"])
    waiting.add(key("x"), ["two"])
    assert waiting.take("one") == [] and waiting.take("two") == [key("x")]


def test_nothing_is_kept_of_those_who_are_gone() -> None:
    waiting = KeyWaiters()
    for number in range(1_000):
        waiting.add(key(f"x{number}"), [f"net-{number}", "shared"])
        waiting.forget(key(f"x{number}"))
    waiting.forget(key("never there"))
    assert not waiting._by_name and not waiting._names
