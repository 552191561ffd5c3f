"""Content negotiation: JSON, YAML, a Table, or metadata only."""

from enum import Enum
from functools import lru_cache

from msgspec import Struct

from alcove.api.errors import NotAcceptable


class ResponseForm(Enum):
    JSON = "application/json"
    YAML = "application/yaml"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_TRANSFORMS = {
    "": ResponseForm.JSON,
    "Table": ResponseForm.TABLE,
    "PartialObjectMetadata": ResponseForm.METADATA,
    "PartialObjectMetadataList": ResponseForm.METADATA,
}
_JSON_TYPES = frozenset({"application/json", "*/*", "application/*"})


_VERSIONS = ("v1", "v1beta1")
"""Versions of Table and PartialObjectMetadata: they differ in name only, and some clients know only the
older."""


class NegotiatedForm(Struct, frozen=True):
    form: ResponseForm
    meta_version: str = "meta.k8s.io/v1"
    """The apiVersion of a Table or PartialObjectMetadata."""


def negotiate(accept: str) -> ResponseForm:
    """The first supported form in the Accept header. Raises NotAcceptable."""
    return choose(accept).form


@lru_cache(maxsize=256)
def choose(accept: str) -> NegotiatedForm:
    """The first supported form in the Accept header, with its version. Raises NotAcceptable."""
    for choice in accept.split(","):
        kind, *parameters = (part.strip() for part in choice.split(";"))
        if kind == "application/yaml":
            return NegotiatedForm(ResponseForm.YAML)
        if kind not in _JSON_TYPES and kind != "":
            continue
        named = dict(part.partition("=")[::2] for part in parameters)
        transform = named.get("as", "")
        if transform not in _TRANSFORMS:
            continue
        if not transform:
            return NegotiatedForm(ResponseForm.JSON)
        if named.get("g") == "meta.k8s.io" and named.get("v") in _VERSIONS:
            return NegotiatedForm(_TRANSFORMS[transform], f"meta.k8s.io/{named['v']}")
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
