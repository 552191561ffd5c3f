"""Certificate signing requests. The spec is immutable.

The requester (`spec.username` and related fields) is set by the server. Approval is a separate subresource,
with the strategy `prepare_approval` and `validate_approval`.
"""

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from alcove.api.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.certificates.pem import blocks, decoded
from alcove.api.kinds.checks import one_of_required
from alcove.api.kinds.core.signers import check_signer_name
from alcove.api.objects import Object

EXPIRATION_SECONDS_MIN = 600
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def _request_error(text: str) -> str:
    """Return the error of a PKCS#10 request in PEM in base64, in its form or its signature."""
    block = next(blocks(decoded(text)), None)
    if block is None or block.kind != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(block.text)
        return "" if request.is_signature_valid else "x509: signature does not match the request's key"
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"x509: malformed certificate request: {error}"


def _certificate_error(text: str) -> str:
    """Return the error of `status.certificate`, which must be one or more plain CERTIFICATE blocks."""
    found = list(blocks(decoded(text)))
    if not found:
        return "must contain at least one CERTIFICATE PEM block"
    for block in found:
        if block.kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"'
        if b":" in block.body:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(block.text)
        except ValueError as error:
            return f"x509: malformed certificate: {error}"
    return ""


def validate_request(csr: Object) -> list[FieldError]:
    spec = csr.get("spec") or {}
    errors: list[FieldError] = []
    if message := _request_error(spec.get("request", "")):
        errors.append(invalid("spec.request", spec.get("request", ""), message))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            errors.append(not_supported(f"spec.usages[{index}]", usage, USAGES))
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            errors.append(duplicate(f"spec.usages[{index}]", usage))
    if spec.get("signerName") == LEGACY_SIGNER:
        message = "the legacy signerName is not allowed via this API version"
        errors.append(invalid("spec.signerName", LEGACY_SIGNER, message))
    else:
        check_signer_name(spec.get("signerName", ""), "spec.signerName", errors)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < EXPIRATION_SECONDS_MIN:
        message = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, message))
    return errors


def prepare_create(csr: Object) -> None:
    """Drop the requester fields that the client sent; the server fills them in."""
    spec = csr.setdefault("spec", {})
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)


def prepare_update(new: Object, old: Object) -> None:
    new["spec"] = old.get("spec") or {}


def _conditions(csr: Object) -> list[Object]:
    return (csr.get("status") or {}).get("conditions") or []


def _of_type(csr: Object, kind: str) -> list[Object]:
    return [condition for condition in _conditions(csr) if condition.get("type") == kind]


def _condition_errors(csr: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[str] = []
    for index, condition in enumerate(_conditions(csr)):
        path, kind = f"status.conditions[{index}]", condition.get("type", "")
        if not kind:
            errors.append(required(f"{path}.type"))
        allowed = ("True",) if kind in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        errors += one_of_required(condition.get("status", ""), allowed, f"{path}.status")
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(kind)
        if other in seen:
            message = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid("status.conditions", kind, message))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.append(kind)
    return errors


def _removal_errors(new: Object, old: Object) -> list[FieldError]:
    return [
        forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')
        for kind in (APPROVED, DENIED, FAILED)
        if len(_of_type(new, kind)) < len(_of_type(old, kind))
    ]


def _approval_errors(new: Object, old: Object) -> list[FieldError]:
    """A plain status write may neither approve nor deny."""
    errors: list[FieldError] = []
    for kind in (APPROVED, DENIED):
        now, before = _of_type(new, kind), _of_type(old, kind)
        if len(now) > len(before):
            message = f'updates may not add a condition of type "{kind}"'
            errors.append(forbidden("status.conditions", message))
        elif len(now) == len(before) and now != before:
            message = f'updates may not modify a condition of type "{kind}"'
            errors.append(forbidden("status.conditions", message))
    return errors


def validate_status(new: Object, old: Object) -> list[FieldError]:
    now, before = ((each.get("status") or {}).get("certificate", "") for each in (new, old))
    errors = _condition_errors(new)
    if now and (message := _certificate_error(now)):
        errors.append(invalid("status.certificate", "<certificate data>", message))
    errors += _removal_errors(new, old) + _approval_errors(new, old)
    if before and now != before:
        message = "updates may not modify existing certificate content"
        errors.append(forbidden("status.certificate", message))
    return errors


def fill_condition_times(new: Object, old: Object, now: str) -> None:
    """Set the update and transition times of conditions where the writer omitted them."""
    for condition in _conditions(new):
        condition.setdefault("lastUpdateTime", now)
        if "lastTransitionTime" not in condition:
            alike = [
                old_condition["lastTransitionTime"]
                for old_condition in _of_type(old, condition.get("type", ""))
                if old_condition.get("status") == condition.get("status")
                and "lastTransitionTime" in old_condition
            ]
            condition["lastTransitionTime"] = alike[0] if alike else now


def prepare_approval(new: Object, old: Object, now: str) -> None:
    """Keep of an approval write only the conditions. `now` is an RFC 3339 time."""
    fill_condition_times(new, old, now)
    status = {**(old.get("status") or {}), "conditions": _conditions(new)}
    new["spec"], new["status"] = old.get("spec") or {}, status


def validate_approval(new: Object, old: Object) -> list[FieldError]:
    """Check an approval write after `prepare_approval`."""
    return _condition_errors(new) + _removal_errors(new, old)


def _any_name(_name: str, _is_prefix: bool) -> Sequence[str]:
    return ()


STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests": Strategy(
        validate=validate_request,
        validate_status=validate_status,
        validate_subresource={"approval": validate_approval},
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        fields={"spec.signerName": lambda csr: str((csr.get("spec") or {}).get("signerName", ""))},
        has_status=True,
        validate_name=_any_name,
    ),
}
