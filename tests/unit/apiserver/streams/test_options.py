import pytest

from alcove.api.errors import ApiError, BadRequest, Invalid
from alcove.api.objects import Object
from alcove.apiserver.streams import options


def pod(*containers: str, init: tuple[str, ...] = (), ephemeral: tuple[str, ...] = ()) -> Object:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": name} for name in containers],
            "initContainers": [{"name": name} for name in init],
            "ephemeralContainers": [{"name": name} for name in ephemeral],
        },
    }


def test_query_parameters_are_parsed() -> None:
    parsed = options.parse("exec", "command=ls&command=-l+x&stdin=true&tty=false&container=a&junk=1")
    assert parsed == {
        "kind": "PodExecOptions", "apiVersion": "v1", "stdin": True, "tty": False, "container": "a",
        "command": ["ls", "-l x"],
    }  # fmt: skip
    log = options.parse("log", "follow&tailLines=5&sinceTime=2026-01-02T03:04:05Z")
    assert (log["follow"], log["tailLines"], log["sinceTime"]) == (True, 5, "2026-01-02T03:04:05Z")
    assert options.parse("portforward", "ports=80,443&ports=8080")["ports"] == [80, 443, 8080]


@pytest.mark.parametrize(("verb", "query"), [("log", "tailLines=many"), ("portforward", "ports=http")])
def test_invalid_numbers_are_rejected(verb: str, query: str) -> None:
    with pytest.raises(BadRequest):
        options.parse(verb, query)


def test_more_parameters_than_anybody_needs_are_refused() -> None:
    with pytest.raises(BadRequest):
        options.parse("exec", "command=x&" * 5_000)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("tailLines=-1", "tailLines"),
        ("limitBytes=0", "limitBytes"),
        ("sinceSeconds=0", "sinceSeconds"),
        ("sinceSeconds=5&sinceTime=2026-01-02T03:04:05Z", "at most one of"),
        ("sinceTime=yesterday", "sinceTime"),
        ("stream=Both", "stream"),
        ("stream=Stdout&tailLines=1", "mutually exclusive"),
    ],
)
def test_logs_that_cannot_be(query: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        options.check("log", options.parse("log", query))


def test_a_command_is_needed() -> None:
    options.check("exec", {"command": ["true"]})
    with pytest.raises(BadRequest, match="at least 1 argument"):
        options.check("exec", {})


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (pod("main"), "", "main"),
        (pod("main", "side"), "side", "side"),
        (pod("main", init=("first",)), "first", "first"),
        (pod("main", ephemeral=("debug",)), "debug", "debug"),
        (pod("main", init=("first",)), "", "main"),
    ],
)
def test_the_container_that_is_meant(given: Object, wanted: str, expected: str) -> None:
    assert options.container_of(given, {"container": wanted} if wanted else {}) == expected


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        (pod("a"), "b", "container b is not valid for pod web"),
        (pod("a", "b"), "", "a container name must be specified for pod web, choose one of: [a b]"),
        (
            pod("a", "b", init=("i",), ephemeral=("e",)),
            "",
            "a container name must be specified for pod web, choose one of: [a b]"
            " or one of the init containers: [i] or one of the ephemeral containers: [e]",
        ),
    ],
)
def test_an_ambiguous_container_is_rejected(given: Object, wanted: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        options.container_of(given, {"container": wanted} if wanted else {})
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"waiting": {"reason": "ErrImagePull"}}, "is waiting to start: ErrImagePull"),
        ({"terminated": {"exitCode": 1}}, "is terminated"),
        ({}, "is waiting to start: ContainerCreating"),
    ],
)
def test_the_message_for_a_container_without_a_log(state: Object, message: str) -> None:
    given = pod("main") | {"status": {"containerStatuses": [{"name": "main", "state": state}]}}
    assert options.waiting(given, "main") == f'container "main" in pod "web" {message}'


def test_the_agent_gets_only_the_parsed_options() -> None:
    parsed = options.parse("log", "follow=true&tailLines=5&junk=%0d%0aHost:+x&container=other")
    assert options.query_of("log", parsed, "main") == {
        "container": ["main"],
        "follow": ["true"],
        "tailLines": ["5"],
    }
    parsed = options.parse("exec", "command=a&command=b&stdout=1")
    assert options.query_of("exec", parsed, "main") == {
        "container": ["main"],
        "stdout": ["true"],
        "command": ["a", "b"],
    }
