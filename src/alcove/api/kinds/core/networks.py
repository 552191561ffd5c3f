"""The tenant's network that a pod or service joins (`spec.network`, or a label), and the network types."""

from collections.abc import Mapping

from alcove.api import names
from alcove.api.errors import BadRequest
from alcove.api.fields import invalid
from alcove.api.objects import Object, get
from alcove.api.validation import FieldErrors, check_value

NETWORK_LABEL = "arktos.futurewei.com/network"
DEFAULT_NETWORK = "default"
NETWORK_TYPES = ("flat", "vpc", "mizar")
"""Values of a network's `spec.type`. The implementations are in `network/providers`."""


def network_of(obj: Object) -> str:
    """Return the network that a pod or service joins."""
    spec, metadata = obj.get("spec"), obj.get("metadata")
    if isinstance(spec, dict) and (network := spec.get("network")):
        return network  # type: ignore[no-any-return]
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return (labels.get(NETWORK_LABEL) if isinstance(labels, dict) else None) or DEFAULT_NETWORK


def check_network_name(spec: Object, path: str, errors: FieldErrors) -> None:
    if network := spec.get("network"):
        check_value(network, names.dns_subdomain, f"{path}.network", errors)


def refuse_two_networks(spec: Object, object_labels: Mapping[str, str], path: str) -> None:
    """Raise BadRequest if field and label name different networks."""
    chosen, labelled = spec.get("network"), object_labels.get(NETWORK_LABEL)
    if chosen and labelled and labelled != chosen:
        raise BadRequest(
            f'{path}.network is "{chosen}" but the label {NETWORK_LABEL} is "{labelled}": '
            "name one network, or the same one in both"
        )


def check_network_unchanged(new: Object, old: Object, errors: FieldErrors) -> None:
    """The network of an object is immutable: its address belongs to that network."""
    if network_of(new) != network_of(old):
        message = f'the network may not change after creation (it is "{network_of(old)}")'
        is_labelled = not get(new, "spec", "network") and not get(old, "spec", "network")
        field = f"metadata.labels[{NETWORK_LABEL}]" if is_labelled else "spec.network"
        errors.append(invalid(field, network_of(new), message))
