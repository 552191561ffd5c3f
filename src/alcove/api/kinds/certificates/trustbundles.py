"""Cluster trust bundles: certificates of authorities that pods trust, of one signer or of none."""

from collections.abc import Sequence

from cryptography import x509

from alcove.api import names
from alcove.api.fields import FieldError, invalid, too_long
from alcove.api.kind import Strategy
from alcove.api.kinds.certificates.pem import blocks
from alcove.api.kinds.checks import unchanged
from alcove.api.kinds.core.signers import check_signer_name
from alcove.api.objects import Object, name

BUNDLE_LENGTH_MAX_BYTES = 1 << 20
_PATH = "spec.trustBundle"
_OMITTED = "<value omitted>"


def validate_bundle(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    signer = spec.get("signerName", "")
    errors = _name(name(obj), signer)
    if signer:
        check_signer_name(signer, "spec.signerName", errors)
    return errors


def _name(bundle: str, signer: str) -> list[FieldError]:
    prefix = f"{signer.replace('/', ':')}:" if signer else ""
    message = ""
    if not signer and ":" in bundle:
        message = 'ClusterTrustBundle without signer name must not have ":" in its name'
    elif not bundle.startswith(prefix):
        message = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
    if message:
        return [invalid("metadata.name", bundle, message)]
    return [
        invalid("metadata.name", bundle, each) for each in names.dns_subdomain(bundle.removeprefix(prefix))
    ]


def validate_certificates(obj: Object) -> list[FieldError]:
    text: str = (obj.get("spec") or {}).get("trustBundle", "")
    if len(text.encode()) > BUNDLE_LENGTH_MAX_BYTES:
        return [too_long(_PATH, BUNDLE_LENGTH_MAX_BYTES)]
    indexes: dict[bytes, list[int]] = {}
    errors: list[FieldError] = []
    for index, block in enumerate(blocks(text.encode())):
        if block.kind != "CERTIFICATE":
            errors.append(invalid(_PATH, _OMITTED, f"entry {index} has bad block type: {block.kind}"))
        elif b":" in block.body:
            errors.append(invalid(_PATH, _OMITTED, f"entry {index} has PEM block headers"))
        elif message := _certificate_error(block.text):
            errors.append(invalid(_PATH, _OMITTED, f"entry {index} {message}"))
        else:
            indexes.setdefault(b"".join(block.body.split()), []).append(index)
    if errors:
        return errors
    if not indexes:
        return [invalid(_PATH, _OMITTED, "at least one trust anchor must be provided")]
    return [
        invalid(_PATH, _OMITTED, f"duplicate trust anchor (indices [{' '.join(map(str, same))}])")
        for same in indexes.values()
        if len(same) > 1
    ]


def _certificate_error(pem: bytes) -> str:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except ValueError:
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"


def validate_bundle_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors = unchanged(now, before, "spec", "signerName")
    return errors + (
        validate_certificates(new) if now.get("trustBundle") != before.get("trustBundle") else []
    )


def _any_name(_name: str, _is_prefix: bool) -> Sequence[str]:
    # `validate_bundle` checks the name: it depends on the signer.
    return ()


STRATEGIES: dict[str, Strategy] = {
    "clustertrustbundles": Strategy(
        validate=validate_bundle,
        validate_create=validate_certificates,
        validate_update=validate_bundle_update,
        validate_name=_any_name,
        fields={"spec.signerName": lambda obj: str((obj.get("spec") or {}).get("signerName", ""))},
        unconditional_update=False,
    ),
}
