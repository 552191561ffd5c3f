"""Projected volumes and the files inside volumes: keys of secrets and config maps, fields, tokens, bundles."""

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
from alcove.api.validation import Faults, check_present

_TOKEN_SECONDS_MIN = 600
_TOKEN_SECONDS_MAX = 1 << 32
_CERTIFICATE_KEYS = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CERTIFICATE_FILES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_CERTIFICATE_SECONDS_MIN = 3600
_CERTIFICATE_SECONDS_MAX = 91 * 86400
_CERTIFICATE_SECONDS_MAX_KUBERNETES = 86400


def check_key_paths(items: Sequence[Object], path: str, faults: Faults) -> None:
    """`items`: which keys become files, and where."""
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        check_present(item.get("key"), f"{where}.key", faults)
        check_present(item.get("path"), f"{where}.path", faults)
        check_not_reserved(item.get("path", ""), f"{where}.path", faults)
        check_file_mode(item.get("mode"), f"{where}.mode", faults)


def check_downward_files(files: Sequence[Object], path: str, faults: Faults) -> None:
    """Fields of the pod as files. The paths in these faults lack the file's index in Kubernetes, too."""
    for file in files:
        check_present(file.get("path"), f"{path}.path", faults)
        check_not_reserved(file.get("path", ""), f"{path}.path", faults)
        field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
        if field is not None:
            check_field_reference(field, VOLUME_FIELDS, f"{path}.fieldRef", faults)
            if resource is not None:
                message = "fieldRef and resourceFieldRef can not be specified simultaneously"
                faults.append(invalid(path, "resource", message))
        elif resource is not None:
            check_resource_reference(resource, True, f"{path}.resourceFieldRef", faults)
        else:
            faults.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        check_file_mode(file.get("mode"), f"{path}.mode", faults)


def check_projected(volume: Object, path: str, faults: Faults) -> None:
    check_file_mode(volume.get("defaultMode"), f"{path}.defaultMode", faults)
    taken: set[str] = set()
    for index, source in enumerate(volume.get("sources", ())):
        where = f"{path}.sources[{index}]"
        count = 0
        for kind in ("secret", "configMap"):
            if kind in source:
                count += 1
                _check_keys(source[kind], taken, f"{where}.{kind}", path, faults)
        if "downwardAPI" in source:
            count += 1
            files = source["downwardAPI"].get("items", ())
            check_downward_files(files, f"{where}.downwardAPI", faults)
            for file in files:
                _take(file.get("path", ""), file.get("path", ""), taken, path, faults)
        if "serviceAccountToken" in source:
            count += 1
            _check_token(source["serviceAccountToken"], f"{where}.serviceAccountToken", path, faults)
        if "clusterTrustBundle" in source:
            count += 1
            _check_bundle(source["clusterTrustBundle"], taken, f"{where}.clusterTrustBundle", path, faults)
        if "podCertificate" in source:
            count += 1
            _check_certificate(source["podCertificate"], taken, f"{where}.podCertificate", path, faults)
        if count > 1:
            faults.append(forbidden(where, "may not specify more than 1 volume type per source"))


def _take(file: str, told_of: str, taken: set[str], path: str, faults: Faults) -> None:
    if not file:
        return
    if file in taken:
        faults.append(invalid(path, told_of, "conflicting duplicate paths"))
    taken.add(file)


def _check_keys(source: Object, taken: set[str], path: str, volume_path: str, faults: Faults) -> None:
    name = source.get("name", "")
    check_present(name, f"{path}.name", faults)
    if items := source.get("items"):
        check_key_paths(items, f"{path}.items", faults)
        for item in items:
            _take(item.get("path", ""), name, taken, volume_path, faults)


def _check_token(token: Object, path: str, volume_path: str, faults: Faults) -> None:
    seconds = token.get("expirationSeconds", 0)
    if seconds < _TOKEN_SECONDS_MIN:
        message = "may not specify a duration less than 10 minutes"
        faults.append(invalid(f"{path}.expirationSeconds", seconds, message))
    if seconds > _TOKEN_SECONDS_MAX:
        message = "may not specify a duration larger than 2^32 seconds"
        faults.append(invalid(f"{path}.expirationSeconds", seconds, message))
    if not token.get("path"):
        faults.append(required(f"{volume_path}.path"))
    else:
        check_not_reserved(token["path"], f"{volume_path}.path", faults)


def _check_bundle(bundle: Object, taken: set[str], path: str, volume_path: str, faults: Faults) -> None:
    if "name" in bundle and "signerName" in bundle:
        faults.append(invalid(path, bundle, "only one of name and signerName may be used"))
    elif "name" in bundle:
        _check_bundle_name(bundle, path, faults)
    elif "signerName" in bundle:
        if not bundle["signerName"]:
            faults.append(required(f"{path}.signerName", "must be a valid signer name"))
        check_signer_name(bundle["signerName"], f"{path}.signerName", faults)
        faults += validate_label_selector(bundle.get("labelSelector"), f"{path}.labelSelector")
    else:
        faults.append(required(path, "either name or signerName must be specified"))
    file = bundle.get("path", "")
    check_present(file, f"{path}.path", faults)
    check_not_reserved(file, f"{path}.path", faults)
    _take(file, file, taken, volume_path, faults)


def _check_bundle_name(bundle: Object, path: str, faults: Faults) -> None:
    name = bundle["name"]
    if not name:
        faults.append(required(f"{path}.name", "must be a valid object name"))
    signer, colon, rest = name.rpartition(":")
    messages: Sequence[str] = names.dns_subdomain(rest)
    if colon and not signer:
        messages = ('ClusterTrustBundle without signer name must not have ":" in its name',)
    for each in messages:
        faults.append(invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {each}"))
    if "labelSelector" in bundle:
        unset = "labelSelector must be unset if name is specified"
        faults.append(invalid(f"{path}.labelSelector", bundle["labelSelector"], unset))


def _check_certificate(
    certificate: Object, taken: set[str], path: str, volume_path: str, faults: Faults
) -> None:
    signer = certificate.get("signerName", "")
    check_signer_name(signer, f"{path}.signerName", faults)
    key_type = certificate.get("keyType", "")
    if key_type not in _CERTIFICATE_KEYS:
        faults.append(not_supported(f"{path}.keyType", key_type, _CERTIFICATE_KEYS))
    if "maxExpirationSeconds" in certificate:
        seconds, where = certificate["maxExpirationSeconds"], f"{path}.maxExpirationSeconds"
        _check_certificate_seconds(seconds, signer, where, faults)
    if annotations := certificate.get("userAnnotations"):
        _check_user_annotations(annotations, f"{path}.userAnnotations", faults)
    files = {field: certificate[field] for field in _CERTIFICATE_FILES if certificate.get(field)}
    for field, file in files.items():
        check_not_reserved(file, f"{path}.{field}", faults)
        _take(file, file, taken, volume_path, faults)
    if not files:
        message = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        faults.append(required(path, message))


def _check_user_annotations(annotations: dict[str, str], path: str, faults: Faults) -> None:
    for key in annotations:
        if messages := names.label_key(key.lower()):
            faults += [invalid(path, key.lower(), each) for each in messages]
        elif "/" not in key:
            unprefixed = 'must be a domain-prefixed key (such as "acme.io/foo")'
            faults.append(invalid(path, key.lower(), unprefixed))
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size_bytes > ANNOTATIONS_SIZE_MAX_BYTES:
        faults.append(too_long(path, ANNOTATIONS_SIZE_MAX_BYTES))


def _check_certificate_seconds(seconds: int, signer: str, path: str, faults: Faults) -> None:
    is_ours = is_kubernetes_signer(signer)
    most = _CERTIFICATE_SECONDS_MAX_KUBERNETES if is_ours else _CERTIFICATE_SECONDS_MAX
    if seconds < _CERTIFICATE_SECONDS_MIN:
        message = f"if provided, maxExpirationSeconds must be >= {_CERTIFICATE_SECONDS_MIN}"
        faults.append(invalid(path, seconds, message))
    if seconds > most:
        faults.append(invalid(path, seconds, f"if provided, maxExpirationSeconds must be <= {most}"))
