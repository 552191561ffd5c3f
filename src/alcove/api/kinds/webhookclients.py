"""Configuration that admission webhooks and conversion webhooks of CRDs share.

The client: a URL, or a service and a path, and a CA bundle. The review versions that the webhook accepts.
"""

import base64
import binascii
from urllib.parse import SplitResult, urlsplit

from cryptography import x509

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kinds.checks import fill, named
from alcove.api.objects import Object

PORT_DEFAULT = 443
REVIEW_VERSIONS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"


def default_client(client: Object) -> None:
    service = client.get("service")
    if service is not None:
        fill(service, "port", PORT_DEFAULT)


def validate_client(client: Object, path: str) -> list[FieldError]:
    """Require exactly one of `url` and `service`."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return validate_url(url, f"{path}.url")
    return _service(service or {}, f"{path}.service")


def validate_url(url: str, path: str) -> list[FieldError]:
    """Require HTTPS with a host, and nothing after the path."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it raises where it is no number
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not _host(parts):
        errors.append(invalid(path, "", f"host must be specified{_FORM}"))
    user, at, _ = parts.netloc.rpartition("@")
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _service(service: Object, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", PORT_DEFAULT)
    if wrong := names.port_number(port):
        errors.append(invalid(f"{path}.port", port, "port is not valid: " + ", ".join(wrong)))
    return errors + _path(service.get("path", ""), f"{path}.path")


def _path(text: str, path: str) -> list[FieldError]:
    if text in ("", "/"):
        return []
    if text == "//":
        return [invalid(path, text, "segment[0] may not be empty")]
    errors = [] if text.startswith("/") else [invalid(path, text, "must start with a '/'")]
    for index, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, text, f"segment[{index}] may not be empty"))
            continue
        errors += [
            invalid(path, text, f"segment[{index}]: {message}") for message in names.dns_subdomain(step)
        ]
    return errors


def validate_ca_bundle(bundle: str, path: str) -> list[FieldError]:
    """Check certificates in PEM in base64."""
    message = "unable to load root certificates: unable to parse bytes as PEM block"
    try:
        data = base64.b64decode(bundle, validate=True)
        x509.load_pem_x509_certificates(data)
    except (binascii.Error, ValueError):
        return [invalid(path, bundle, message)]
    return []


def validate_review_versions(versions: list[str], path: str, missing: str = "") -> list[FieldError]:
    """Require a version that the API server can send. `missing` is Kubernetes' message for an empty list."""
    if not versions:
        return [required(path, missing)]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors += named(version, names.dns_1035_label, f"{path}[{index}]")
    if not set(versions) & set(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors
