"""Which form of an answer the client takes: JSON, YAML, a table, metadata only."""

from enum import Enum
from functools import lru_cache

from alcove.api.errors import NotAcceptable


class Form(Enum):
    JSON = "application/json"
    YAML = "application/yaml"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


_TRANSFORMS = {
    "": Form.JSON,
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}
_JSON_TYPES = frozenset({"application/json", "*/*", "application/*"})


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The first form in the client's list that we have. Raises NotAcceptable."""
    for choice in accept.split(","):
        kind, *parameters = (part.strip() for part in choice.split(";"))
        if kind == "application/yaml":
            return Form.YAML
        if kind not in _JSON_TYPES and kind != "":
            continue
        named = dict(part.partition("=")[::2] for part in parameters)
        wanted = named.get("as", "")
        if wanted and (named.get("g"), named.get("v")) != ("meta.k8s.io", "v1"):
            continue
        if wanted in _TRANSFORMS:
            return _TRANSFORMS[wanted]
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
