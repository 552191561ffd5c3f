"""The options of a stream request, and the container it selects. Pure: no I/O. Messages are those of
Kubernetes."""

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
    """The options object from the query string. Raises BadRequest."""
    try:
        pairs = parse_qsl(raw_query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise BadRequest(f"the query string has more than {PARAMETERS_MAX} parameters") from error
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    options: Object = {"kind": KINDS[verb], "apiVersion": "v1"}
    for name in _FLAGS[verb]:
        if name in parameters:
            options[name] = parameters[name][0] in _TRUE or parameters[name][0] == ""
    for name in _NUMBERS.get(verb, ()):
        if name in parameters:
            options[name] = _number(name, parameters[name][0])
    options |= {name: parameters[name][0] for name in _TEXTS[verb] if parameters.get(name, [""])[0]}
    if verb == "exec" and "command" in parameters:
        options["command"] = parameters["command"]
    if verb == "portforward" and "ports" in parameters:
        options["ports"] = [
            _number("ports", text) for each in parameters["ports"] for text in each.split(",")
        ]
    return options


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadRequest(f'unable to decode the query parameter {name}: "{text}" is not a number') from error


def check(verb: str, options: Object) -> None:
    """Raises Invalid, BadRequest."""
    if verb == "log":
        errors = _log_errors(options)
        if errors:
            raise Invalid.of("", KINDS[verb], "", errors)
    elif verb == "exec" and not options.get("command"):
        raise BadRequest("you must specify at least 1 argument for the command")


def _log_errors(options: Object) -> list[FieldError]:
    errors = [
        invalid(name, options[name], message)
        for name, minimum, message in (
            ("tailLines", 0, "must be greater than or equal to 0"),
            ("limitBytes", 1, "must be greater than 0"),
            ("sinceSeconds", 1, "must be greater than 0"),
        )
        if options.get(name, minimum) < minimum
    ]
    if "sinceSeconds" in options and "sinceTime" in options:
        errors.append(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if "sinceTime" in options:
        try:
            meta.parse_time(options["sinceTime"])
        except ValueError:
            errors.append(invalid("sinceTime", options["sinceTime"], "must be an RFC 3339 time"))
    stream = options.get("stream", "All")
    if stream not in ("All", "Stdout", "Stderr"):
        errors.append(invalid("stream", stream, 'supported values: "All", "Stderr", "Stdout"'))
    elif stream != "All" and "tailLines" in options:
        errors.append(forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"))
    return errors


def container_of(pod: Object, options: Object) -> str:
    """The container that the options select, or the only one. Raises BadRequest."""
    name, requested = objects.name(pod), options.get("container", "")
    names = {field: _names(pod, field) for field, _ in _LISTS}
    if requested:
        if not any(requested in each for each in names.values()):
            raise BadRequest(f"container {requested} is not valid for pod {name}")
        return str(requested)
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
    """The query for the agent: only parameters that were parsed and checked here."""
    query: dict[str, list[str]] = {"container": [container]} if container else {}
    for name in _FLAGS[verb]:
        if options.get(name):
            query[name] = ["true"]
    for name in (*_NUMBERS.get(verb, ()), "sinceTime", "stream"):
        if name in options:
            query[name] = [str(options[name])]
    for name in ("command", "ports"):
        if name in options:
            query[name] = [str(each) for each in options[name]]
    return query
