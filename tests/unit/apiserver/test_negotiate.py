"""The response form that an Accept header selects."""

import pytest

from alcove.api.errors import NotAcceptable
from alcove.apiserver.negotiate import ResponseForm, choose

NEWER, OLDER = "meta.k8s.io/v1", "meta.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("accept", "form", "version"),
    [
        ("", ResponseForm.JSON, NEWER),
        ("*/*", ResponseForm.JSON, NEWER),
        ("application/vnd.kubernetes.protobuf,application/json", ResponseForm.JSON, NEWER),
        ("application/yaml", ResponseForm.YAML, NEWER),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ResponseForm.TABLE, NEWER),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", ResponseForm.TABLE, OLDER),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", ResponseForm.JSON, NEWER),
        ("application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadata", ResponseForm.METADATA, NEWER),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
            ResponseForm.METADATA,
            OLDER,
        ),
    ],
)
def test_the_first_supported_media_type_is_used(accept: str, form: ResponseForm, version: str) -> None:
    assert (choose(accept).form, choose(accept).meta_version) == (form, version)


@pytest.mark.parametrize(
    "accept",
    ["text/html", "application/json;as=Table;v=v1;g=other", "application/json;as=Other;v=v1;g=meta.k8s.io"],
)
def test_unsupported_media_types_are_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        choose(accept)
