"""Names of certificate signers: `example.com/purpose`."""

from alcove.api import names
from alcove.api.fields import invalid, quote, required, too_long
from alcove.api.validation import FieldErrors

_SIGNER_LENGTH_MAX = 253 + 1 + 253 + 1 + 63


def is_kubernetes_signer(signer: str) -> bool:
    domain = signer.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def check_signer_name(signer: str, field: str, errors: FieldErrors) -> None:
    if not signer:
        errors.append(required(field))
        return
    domain, slash, name = signer.partition("/")
    if not slash or "/" in name:
        message = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.append(invalid(field, signer, message))
        return
    if len(domain.encode()) > names.SUBDOMAIN_LENGTH_MAX:
        errors.append(too_long(field, names.SUBDOMAIN_LENGTH_MAX))
    _check_labels(domain, names.dns_label, field, errors)
    if "." not in domain:
        message = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(field, domain, message))
    _check_labels(name, names.dns_subdomain, field, errors)
    if len(signer.encode()) > _SIGNER_LENGTH_MAX:
        errors.append(too_long(field, _SIGNER_LENGTH_MAX))


def _check_labels(part: str, check: names.Check, field: str, errors: FieldErrors) -> None:
    """Report only the first invalid label: errors of the others would be the same."""
    for label in part.split("."):
        if messages := check(label):
            errors += [invalid(field, part, f"validating label {quote(label)}: {each}") for each in messages]
            return
