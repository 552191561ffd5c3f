"""Projected volumes and files inside volumes: keys of secrets and config maps, fields, tokens, bundles."""

from collections.abc import Sequence

from alcove.api import names
from alcove.api.fields import forbidden, invalid, not_supported, required, too_long
from alcove.api.kinds.core.paths import check_file_mode, check_not_reserved
from alcove.api.kinds.core.pods.environment import (
    VOLUME_FIELDS,
    check_field_reference,
    check_resource_reference,
)
from alcove.api.kinds.core.signers import check_signer_name, is_kubernetes_signer
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.kinds.metadata import ANNOTATIONS_SIZE_MAX_BYTES
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_present

_TOKEN_SECONDS_MIN = 600
_TOKEN_SECONDS_MAX = 1 << 32
_CERTIFICATE_KEYS = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CERTIFICATE_FILES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_CERTIFICATE_SECONDS_MIN = 3600
_CERTIFICATE_SECONDS_MAX = 91 * 86400
_CERTIFICATE_SECONDS_MAX_KUBERNETES = 86400


def check_key_paths(items: Sequence[Object], path: str, errors: FieldErrors) -> None:
    """Check `items`: the keys that become files, and their paths."""
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        check_present(item.get("key"), f"{where}.key", errors)
        check_present(item.get("path"), f"{where}.path", errors)
        check_not_reserved(item.get("path", ""), f"{where}.path", errors)
        check_file_mode(item.get("mode"), f"{where}.mode", errors)


def check_downward_files(files: Sequence[Object], path: str, errors: FieldErrors) -> None:
    """Check fields of the pod as files. The paths in these errors lack the file's index, as in Kubernetes."""
    for file in files:
        check_present(file.get("path"), f"{path}.path", errors)
        check_not_reserved(file.get("path", ""), f"{path}.path", errors)
        field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
        if field is not None:
            check_field_reference(field, VOLUME_FIELDS, f"{path}.fieldRef", errors)
            if resource is not None:
                message = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(invalid(path, "resource", message))
        elif resource is not None:
            check_resource_reference(resource, True, f"{path}.resourceFieldRef", errors)
        else:
            errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        check_file_mode(file.get("mode"), f"{path}.mode", errors)


def check_projected(volume: Object, path: str, errors: FieldErrors) -> None:
    check_file_mode(volume.get("defaultMode"), f"{path}.defaultMode", errors)
    used_paths: set[str] = set()
    for index, source in enumerate(volume.get("sources", ())):
        where = f"{path}.sources[{index}]"
        count = 0
        for kind in ("secret", "configMap"):
            if kind in source:
                count += 1
                _check_keys(source[kind], used_paths, f"{where}.{kind}", path, errors)
        if "downwardAPI" in source:
            count += 1
            files = source["downwardAPI"].get("items", ())
            check_downward_files(files, f"{where}.downwardAPI", errors)
            for file in files:
                _take(file.get("path", ""), file.get("path", ""), used_paths, path, errors)
        if "serviceAccountToken" in source:
            count += 1
            _check_token(source["serviceAccountToken"], f"{where}.serviceAccountToken", path, errors)
        if "clusterTrustBundle" in source:
            count += 1
            _check_bundle(
                source["clusterTrustBundle"], used_paths, f"{where}.clusterTrustBundle", path, errors
            )
        if "podCertificate" in source:
            count += 1
            _check_certificate(source["podCertificate"], used_paths, f"{where}.podCertificate", path, errors)
        if count > 1:
            errors.append(forbidden(where, "may not specify more than 1 volume type per source"))


def _take(file: str, shown: str, used_paths: set[str], path: str, errors: FieldErrors) -> None:
    if not file:
        return
    if file in used_paths:
        errors.append(invalid(path, shown, "conflicting duplicate paths"))
    used_paths.add(file)


def _check_keys(
    source: Object, used_paths: set[str], path: str, volume_path: str, errors: FieldErrors
) -> None:
    name = source.get("name", "")
    check_present(name, f"{path}.name", errors)
    if items := source.get("items"):
        check_key_paths(items, f"{path}.items", errors)
        for item in items:
            _take(item.get("path", ""), name, used_paths, volume_path, errors)


def _check_token(token: Object, path: str, volume_path: str, errors: FieldErrors) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < _TOKEN_SECONDS_MIN:
        message = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, message))
    if seconds > _TOKEN_SECONDS_MAX:
        message = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, message))
    if not token.get("path"):
        errors.append(required(f"{volume_path}.path"))
    else:
        check_not_reserved(token["path"], f"{volume_path}.path", errors)


def _check_bundle(
    bundle: Object, used_paths: set[str], path: str, volume_path: str, errors: FieldErrors
) -> None:
    if "name" in bundle and "signerName" in bundle:
        errors.append(invalid(path, bundle, "only one of name and signerName may be used"))
    elif "name" in bundle:
        _check_bundle_name(bundle, path, errors)
    elif "signerName" in bundle:
        if not bundle["signerName"]:
            errors.append(required(f"{path}.signerName", "must be a valid signer name"))
        check_signer_name(bundle["signerName"], f"{path}.signerName", errors)
        errors += validate_label_selector(bundle.get("labelSelector"), f"{path}.labelSelector")
    else:
        errors.append(required(path, "either name or signerName must be specified"))
    file = bundle.get("path", "")
    check_present(file, f"{path}.path", errors)
    check_not_reserved(file, f"{path}.path", errors)
    _take(file, file, used_paths, volume_path, errors)


def _check_bundle_name(bundle: Object, path: str, errors: FieldErrors) -> None:
    name = bundle["name"]
    if not name:
        errors.append(required(f"{path}.name", "must be a valid object name"))
    signer, colon, rest = name.rpartition(":")
    messages: Sequence[str] = names.dns_subdomain(rest)
    if colon and not signer:
        messages = ('ClusterTrustBundle without signer name must not have ":" in its name',)
    for each in messages:
        errors.append(invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {each}"))
    if "labelSelector" in bundle:
        unset = "labelSelector must be unset if name is specified"
        errors.append(invalid(f"{path}.labelSelector", bundle["labelSelector"], unset))


def _check_certificate(
    certificate: Object, used_paths: set[str], path: str, volume_path: str, errors: FieldErrors
) -> None:
    signer = certificate.get("signerName", "")
    check_signer_name(signer, f"{path}.signerName", errors)
    key_type = certificate.get("keyType", "")
    if key_type not in _CERTIFICATE_KEYS:
        errors.append(not_supported(f"{path}.keyType", key_type, _CERTIFICATE_KEYS))
    if "maxExpirationSeconds" in certificate:
        seconds, where = certificate["maxExpirationSeconds"], f"{path}.maxExpirationSeconds"
        _check_certificate_seconds(seconds, signer, where, errors)
    if annotations := certificate.get("userAnnotations"):
        _check_user_annotations(annotations, f"{path}.userAnnotations", errors)
    files = {field: certificate[field] for field in _CERTIFICATE_FILES if certificate.get(field)}
    for field, file in files.items():
        check_not_reserved(file, f"{path}.{field}", errors)
        _take(file, file, used_paths, volume_path, errors)
    if not files:
        message = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        errors.append(required(path, message))


def _check_user_annotations(annotations: dict[str, str], path: str, errors: FieldErrors) -> None:
    for key in annotations:
        if messages := names.label_key(key.lower()):
            errors += [invalid(path, key.lower(), each) for each in messages]
        elif "/" not in key:
            unprefixed = 'must be a domain-prefixed key (such as "acme.io/foo")'
            errors.append(invalid(path, key.lower(), unprefixed))
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size_bytes > ANNOTATIONS_SIZE_MAX_BYTES:
        errors.append(too_long(path, ANNOTATIONS_SIZE_MAX_BYTES))


def _check_certificate_seconds(seconds: int, signer: str, path: str, errors: FieldErrors) -> None:
    is_ours = is_kubernetes_signer(signer)
    maximum = _CERTIFICATE_SECONDS_MAX_KUBERNETES if is_ours else _CERTIFICATE_SECONDS_MAX
    if seconds < _CERTIFICATE_SECONDS_MIN:
        message = f"if provided, maxExpirationSeconds must be >= {_CERTIFICATE_SECONDS_MIN}"
        errors.append(invalid(path, seconds, message))
    if seconds > maximum:
        errors.append(invalid(path, seconds, f"if provided, maxExpirationSeconds must be <= {maximum}"))
