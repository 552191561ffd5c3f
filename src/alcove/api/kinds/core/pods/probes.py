"""Probes and lifecycle hooks: handlers, periods and thresholds."""

from alcove.api import names
from alcove.api.fields import forbidden, invalid, not_supported, required
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_not_negative, check_port, check_port_or_name, check_value

_HTTP_SCHEMES = ("HTTP", "HTTPS")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_REAL_TIME = (
    "SIGRTMIN",
    *(f"SIGRTMIN+{number}" for number in range(1, 16)),
    *(f"SIGRTMAX-{number}" for number in range(14, 0, -1)),
    "SIGRTMAX",
)
_SIGNALS = tuple(
    sorted(
        (
            *[
                "SIGABRT",
                "SIGALRM",
                "SIGBUS",
                "SIGCHLD",
                "SIGCLD",
                "SIGCONT",
                "SIGFPE",
                "SIGHUP",
                "SIGILL",
                "SIGINT",
                "SIGIO",
                "SIGIOT",
                "SIGKILL",
                "SIGPIPE",
                "SIGPOLL",
                "SIGPROF",
                "SIGPWR",
                "SIGQUIT",
                "SIGSEGV",
                "SIGSTKFLT",
                "SIGSTOP",
                "SIGSYS",
                "SIGTERM",
                "SIGTRAP",
                "SIGTSTP",
                "SIGTTIN",
                "SIGTTOU",
                "SIGURG",
                "SIGUSR1",
                "SIGUSR2",
                "SIGVTALRM",
                "SIGWINCH",
                "SIGXCPU",
                "SIGXFSZ",
            ],
            *_REAL_TIME,
        )
    )
)
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


def check_probes(container: Object, grace_seconds: int | None, path: str, errors: FieldErrors) -> None:
    """Check the liveness, readiness and startup probes of one container."""
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(field)
        if probe is None:
            continue
        where = f"{path}.{field}"
        _check_probe(probe, grace_seconds, where, errors)
        if field == "readinessProbe":
            if "terminationGracePeriodSeconds" in probe:
                message = "must not be set for readinessProbes"
                seconds = probe["terminationGracePeriodSeconds"]
                errors.append(invalid(f"{where}.terminationGracePeriodSeconds", seconds, message))
        elif probe.get("successThreshold", 0) != 1:
            errors.append(invalid(f"{where}.successThreshold", probe.get("successThreshold", 0), "must be 1"))


def _check_probe(probe: Object, grace_seconds: int | None, path: str, errors: FieldErrors) -> None:
    _check_handler(probe, _PROBES, grace_seconds, path, errors)
    for field in _COUNTS:
        if probe.get(field, 0) < 0:
            check_not_negative(probe[field], f"{path}.{field}", errors)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))


def check_lifecycle(
    lifecycle: Object, grace_seconds: int | None, os: str, path: str, errors: FieldErrors
) -> None:
    """Check lifecycle hooks; `os` is the name in `spec.os`, empty if there is none."""
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            _check_handler(lifecycle[field], _HOOKS, grace_seconds, f"{path}.{field}", errors)
    if signal := lifecycle.get("stopSignal"):
        _check_stop_signal(signal, os, f"{path}.stopSignal", errors)


def _check_stop_signal(signal: str, os: str, path: str, errors: FieldErrors) -> None:
    if not os:
        errors.append(forbidden(path, "may not be set for containers with empty `spec.os.name`"))
        return
    supported = _WINDOWS_SIGNALS if os == "windows" else _SIGNALS
    if os in ("windows", "linux") and signal not in supported:
        errors.append(not_supported(path, signal, supported))


def _check_handler(
    handler: Object, kinds: tuple[str, ...], grace_seconds: int | None, path: str, errors: FieldErrors
) -> None:
    chosen = ""
    for kind in kinds:
        if kind not in handler:
            continue
        if chosen:
            errors.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        chosen = kind
        action = handler[kind]
        if kind == "httpGet":
            _check_http_get(action, f"{path}.httpGet", errors)
        elif kind == "exec":
            if not action.get("command"):
                errors.append(required(f"{path}.exec.command"))
        elif kind == "tcpSocket":
            check_port_or_name(action.get("port", 0), f"{path}.tcpSocket.port", errors)
        elif kind == "grpc":
            check_port(action.get("port", 0), f"{path}.grpc.port", errors)
        else:
            _check_sleep(action.get("seconds", 0), grace_seconds, f"{path}.sleep", errors)
    if not chosen:
        errors.append(required(path, "must specify a handler type"))


def _check_http_get(action: Object, path: str, errors: FieldErrors) -> None:
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    check_port_or_name(action.get("port", 0), f"{path}.port", errors)
    scheme = action.get("scheme", "")
    if scheme not in _HTTP_SCHEMES:
        errors.append(not_supported(f"{path}.scheme", scheme, _HTTP_SCHEMES))
    for header in action.get("httpHeaders", ()):
        check_value(header.get("name", ""), names.http_header_name, f"{path}.httpHeaders", errors)


def _check_sleep(seconds: int, grace_seconds: int | None, path: str, errors: FieldErrors) -> None:
    if grace_seconds is not None and not 0 <= seconds <= grace_seconds:
        message = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
        errors.append(invalid(path, seconds, message))
