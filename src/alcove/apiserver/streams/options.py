"""What a request for a stream asks for, and which container it means. Pure; the words are Kubernetes'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from alcove.api import meta, objects
from alcove.api.errors import BadRequest, Invalid
from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.objects import Object

PARAMETERS_MAX = 4_096
KINDS = {
    "log": "PodLogOptions",
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}
_FLAGS = {
    "log": ("follow", "previous", "timestamps", "insecureSkipTLSVerifyBackend"),
    "exec": ("stdin", "stdout", "stderr", "tty"),
    "attach": ("stdin", "stdout", "stderr", "tty"),
    "portforward": (),
}
_NUMBERS = {"log": ("sinceSeconds", "tailLines", "limitBytes")}
_TEXTS = {
    "log": ("container", "sinceTime", "stream"),
    "exec": ("container",),
    "attach": ("container",),
    "portforward": (),
}
_TRUE = frozenset({"true", "1", "t", "T", "TRUE", "True"})
_LISTS = (
    ("containers", ""),
    ("initContainers", "init containers"),
    ("ephemeralContainers", "ephemeral containers"),
)


def parse(verb: str, raw_query: str) -> Object:
    """The options object that the query string stands for. Raises BadRequest."""
    try:
        pairs = parse_qsl(raw_query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise BadRequest(f"the query string has more than {PARAMETERS_MAX} parameters") from error
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    options: Object = {"kind": KINDS[verb], "apiVersion": "v1"}
    for name in _FLAGS[verb]:
        if name in given:
            options[name] = given[name][0] in _TRUE or given[name][0] == ""
    for name in _NUMBERS.get(verb, ()):
        if name in given:
            options[name] = _number(name, given[name][0])
    options |= {name: given[name][0] for name in _TEXTS[verb] if given.get(name, [""])[0]}
    if verb == "exec" and "command" in given:
        options["command"] = given["command"]
    if verb == "portforward" and "ports" in given:
        options["ports"] = [_number("ports", text) for each in given["ports"] for text in each.split(",")]
    return options


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadRequest(f'unable to decode the query parameter {name}: "{text}" is no number') from error


def check(verb: str, options: Object) -> None:
    """Raises Invalid, BadRequest."""
    if verb == "log":
        faults = _log_faults(options)
        if faults:
            raise Invalid.of("", KINDS[verb], "", faults)
    elif verb == "exec" and not options.get("command"):
        raise BadRequest("you must specify at least 1 argument for the command")


def _log_faults(options: Object) -> list[FieldError]:
    faults = [
        invalid(name, options[name], message)
        for name, least, message in (
            ("tailLines", 0, "must be greater than or equal to 0"),
            ("limitBytes", 1, "must be greater than 0"),
            ("sinceSeconds", 1, "must be greater than 0"),
        )
        if options.get(name, least) < least
    ]
    if "sinceSeconds" in options and "sinceTime" in options:
        faults.append(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if "sinceTime" in options:
        try:
            meta.parse_time(options["sinceTime"])
        except ValueError:
            faults.append(invalid("sinceTime", options["sinceTime"], "must be an RFC 3339 time"))
    stream = options.get("stream", "All")
    if stream not in ("All", "Stdout", "Stderr"):
        faults.append(invalid("stream", stream, 'supported values: "All", "Stderr", "Stdout"'))
    elif stream != "All" and "tailLines" in options:
        faults.append(forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"))
    return faults


def container_of(pod: Object, options: Object) -> str:
    """The container that is meant. Raises BadRequest."""
    name, wanted = objects.name(pod), options.get("container", "")
    names = {field: _names(pod, field) for field, _ in _LISTS}
    if wanted:
        if not any(wanted in each for each in names.values()):
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return str(wanted)
    if len(names["containers"]) == 1:
        return names["containers"][0]
    message = f"a container name must be specified for pod {name}"
    if names["containers"]:
        message += f", choose one of: [{' '.join(names['containers'])}]"
    for field, text in _LISTS[1:]:
        if names[field]:
            message += f" or one of the {text}: [{' '.join(names[field])}]"
    raise BadRequest(message)


def _names(pod: Object, field: str) -> Sequence[str]:
    return [each["name"] for each in objects.get(pod, "spec", field, default=())]


def waiting(pod: Object, container: str) -> str:
    """Why a container that has not started has no log yet."""
    name = objects.name(pod)
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for status in objects.get(pod, "status", field, default=()):
            if status.get("name") == container:
                reason = objects.get(status, "state", "waiting", "reason", default="")
                if reason:
                    return f'container "{container}" in pod "{name}" is waiting to start: {reason}'
                if objects.get(status, "state", "terminated") is not None:
                    return f'container "{container}" in pod "{name}" is terminated'
    return f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'


def query_of(verb: str, options: Object, container: str) -> Mapping[str, list[str]]:
    """What the agent is told: nothing but what was understood here."""
    told: dict[str, list[str]] = {"container": [container]} if container else {}
    for name in _FLAGS[verb]:
        if options.get(name):
            told[name] = ["true"]
    for name in (*_NUMBERS.get(verb, ()), "sinceTime", "stream"):
        if name in options:
            told[name] = [str(options[name])]
    for name in ("command", "ports"):
        if name in options:
            told[name] = [str(each) for each in options[name]]
    return told
