"""CRDs in protected groups (`k8s.io`, `kubernetes.io`) need an approval annotation, or a reason against it."""

from urllib.parse import urlsplit

from alcove.api.fields import FieldError, invalid, required
from alcove.api.objects import Object, annotations

ANNOTATION = "api-approved.kubernetes.io"
_PATH = f"metadata.annotations[{ANNOTATION}]"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(group: str) -> bool:
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def _is_approved(text: str) -> bool:
    if text.startswith("unapproved"):
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def approval_errors(crd: Object) -> list[FieldError]:
    text = annotations(crd).get(ANNOTATION, "")
    group = (crd.get("spec") or {}).get("group", "")
    if not is_protected(group) or (text and _is_approved(text)):
        return []
    message = f'protected groups must have approval annotation "{ANNOTATION}"'
    if not text:
        return [required(_PATH, f"{message}, {_SEE}")]
    how = 'with either a URL or a reason starting with "unapproved"'
    return [invalid(_PATH, text, f"{message} {how}, {_SEE}")]


def changed_approval_errors(new: Object, old: Object) -> list[FieldError]:
    """A missing annotation may stay missing; a changed one must be valid."""
    errors = approval_errors(new)
    return (
        [] if [error.fault for error in errors] == [error.fault for error in approval_errors(old)] else errors
    )
