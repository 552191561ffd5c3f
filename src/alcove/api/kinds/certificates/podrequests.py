"""Pod certificate requests: a node asks for a certificate of a pod, and the signer answers once, in the status."""

from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from alcove.api import meta, names
from alcove.api.fields import FieldError, invalid, not_supported, required, too_long
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.certificates.pem import blocks, decoded
from alcove.api.kinds.checks import conditions, named, refused, unchanged
from alcove.api.kinds.core.signers import check_signer_name, is_kubernetes_signer
from alcove.api.objects import Object
from alcove.api.validation import same

UID_LENGTH_MAX_BYTES = 128
REQUEST_LENGTH_MAX_BYTES = 10 << 10
CHAIN_LENGTH_MAX_BYTES = 100 << 10
EXPIRATION_SECONDS_MIN = 3600
EXPIRATION_SECONDS_MAX = 91 * 86_400
EXPIRATION_SECONDS_DEFAULT = 86_400
KUBERNETES_EXPIRATION_SECONDS_MAX = 86_400
REFRESH_MARGIN_SECONDS = 600

OUTCOMES = ("Issued", "Denied", "Failed")
_CHAIN = "status.certificateChain"
_REQUEST = "spec.stubPKCS10Request"


def default_request(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("maxExpirationSeconds") is None:
        spec["maxExpirationSeconds"] = EXPIRATION_SECONDS_DEFAULT


def validate_request(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    check_signer_name(spec.get("signerName", ""), "spec.signerName", errors)
    for field in ("podName", "serviceAccountName", "nodeName"):
        errors += named(spec.get(field, ""), names.dns_subdomain, f"spec.{field}")
    for field in ("podUID", "serviceAccountUID", "nodeUID"):
        uid = spec.get(field, "")
        if not uid:
            errors.append(invalid(f"spec.{field}", uid, "must not be empty"))
        elif len(uid.encode()) > UID_LENGTH_MAX_BYTES:
            errors.append(too_long(f"spec.{field}", UID_LENGTH_MAX_BYTES))
    for key in spec.get("unverifiedUserAnnotations") or {}:
        errors += named(key, names.label_key, "spec.unverifiedUserAnnotations")
    return errors + _expiration(spec) + _stub(spec.get("stubPKCS10Request", ""))


def _expiration(spec: Object) -> list[FieldError]:
    path, seconds = "spec.maxExpirationSeconds", spec.get("maxExpirationSeconds")
    if seconds is None:
        return [required(path, "must be set")]
    is_ours = is_kubernetes_signer(spec.get("signerName", ""))
    maximum = KUBERNETES_EXPIRATION_SECONDS_MAX if is_ours else EXPIRATION_SECONDS_MAX
    if EXPIRATION_SECONDS_MIN <= seconds <= maximum:
        return []
    return [invalid(path, seconds, f"must be in the range [{EXPIRATION_SECONDS_MIN}, {maximum}]")]


def _stub(text: str) -> list[FieldError]:
    """Check the request, which proves that the node has the key and otherwise says nothing."""
    data = decoded(text)
    if not data:
        message = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        return [refused("spec", message)]
    if len(data) > REQUEST_LENGTH_MAX_BYTES:
        return [too_long(_REQUEST, REQUEST_LENGTH_MAX_BYTES)]
    try:
        request = x509.load_der_x509_csr(data)
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return [refused(_REQUEST, "must be a valid PKCS#10 CSR")]
    message = ""
    match key:
        case ed25519.Ed25519PublicKey():
            pass
        case ec.EllipticCurvePublicKey():
            if not isinstance(key.curve, (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)):
                message = "elliptic public keys must use curve P256, P384, or P521"
        case rsa.RSAPublicKey():
            if key.key_size not in (3072, 4096):
                message = "RSA keys must have modulus size 3072 or 4096"
        case _:
            message = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
    if not message and not request.is_signature_valid:
        message = "invalid signature"
    return [refused(_REQUEST, message)] if message else []


def _outcome(obj: Object) -> str:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each["type"] for each in found if each.get("type") in OUTCOMES), "")


def validate_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    if errors := _conditions(status.get("conditions") or []):
        return errors
    is_same = same(status, old.get("status") or {})
    if _outcome(old):
        message = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if is_same else [refused("status", message)]
    match _outcome(new):
        case "":
            message = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
            return [] if is_same else [refused("status", message)]
        case "Issued":
            return _issued(new, status)
        case _:
            message = (
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            )
            only = all(not value for field, value in status.items() if field != "conditions")
            return [] if only else [refused("status", message)]


def _conditions(found: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(found):
        path, kind = f"status.conditions[{index}]", condition.get("type", "")
        if kind not in OUTCOMES:
            errors.append(not_supported(f"{path}.type", kind, OUTCOMES))
            continue
        if index:
            message = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(f"{path}.type", kind, message))
        if condition.get("status") != "True":
            errors.append(not_supported(f"{path}.status", condition.get("status", ""), ("True",)))
    return errors + conditions(found, "status.conditions")


def _issued(obj: Object, status: Object) -> list[FieldError]:
    text: str = status.get("certificateChain", "")
    if len(text.encode()) > CHAIN_LENGTH_MAX_BYTES:
        return [too_long(_CHAIN, CHAIN_LENGTH_MAX_BYTES)]
    chain = list(blocks(text.encode()))
    if not chain:
        return [refused(_CHAIN, "issued certificate chain must contain at least one certificate")]
    if any(block.kind != "CERTIFICATE" for block in chain):
        return [refused(_CHAIN, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")]
    try:
        leaf, *_ = [x509.load_pem_x509_certificate(block.text) for block in chain]
        requested = x509.load_der_x509_csr(decoded(obj["spec"]["stubPKCS10Request"])).public_key()
        is_for_key = leaf.public_key() == requested
    except (ValueError, UnsupportedAlgorithm):
        return [refused(_CHAIN, "a certificate of the chain does not parse as valid X.509")]
    if not is_for_key:
        return [refused(_CHAIN, "leaf certificate was not issued to the requested public key")]
    return _times(obj, status, leaf)


def _times(obj: Object, status: Object, leaf: x509.Certificate) -> list[FieldError]:
    fields = ("notBefore", "notAfter", "beginRefreshAt")
    if missing := [field for field in fields if not status.get(field)]:
        return [required(f"status.{field}", "must be present") for field in missing]
    begin, end, refresh = (meta.parse_time(status[field]) for field in fields)
    lifetime, maximum = end - begin, obj["spec"]["maxExpirationSeconds"]
    checks = (
        ("notBefore", begin == leaf.not_valid_before_utc.timestamp(), "must be set to the NotBefore time encoded in the leaf certificate"),
        ("notAfter", end == leaf.not_valid_after_utc.timestamp(), "must be set to the NotAfter time encoded in the leaf certificate"),
        ("certificateChain", lifetime >= EXPIRATION_SECONDS_MIN, "leaf certificate lifetime must be >= 1 hour"),
        ("certificateChain", lifetime <= maximum, f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({maximum})"),
        ("beginRefreshAt", refresh >= begin + REFRESH_MARGIN_SECONDS, "must be at least 10 minutes after status.notBefore"),
        ("beginRefreshAt", refresh <= end - REFRESH_MARGIN_SECONDS, "must be at least 10 minutes before status.notAfter"),
    )  # fmt: skip
    return [refused(f"status.{field}", message) for field, holds, message in checks if not holds][:1]


def _spec_field(field: str) -> Callable[[Object], str]:
    return lambda obj: str((obj.get("spec") or {}).get(field, ""))


STRATEGIES: dict[str, Strategy] = {
    "podcertificaterequests": Strategy(
        default=default_request,
        validate_create=validate_request,
        validate_update=lambda new, old: unchanged(new, old, "", "spec"),
        validate_status=validate_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        unconditional_update=False,
        fields={f"spec.{field}": _spec_field(field) for field in ("signerName", "podName", "nodeName")},
    ),
}
