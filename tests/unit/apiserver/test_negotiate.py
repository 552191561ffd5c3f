"""Which form an Accept header asks for."""

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
def test_the_first_that_we_have_is_taken(accept: str, form: ResponseForm, version: str) -> None:
    assert (choose(accept).form, choose(accept).meta_version) == (form, version)


@pytest.mark.parametrize(
    "accept",
    ["text/html", "application/json;as=Table;v=v1;g=other", "application/json;as=Other;v=v1;g=meta.k8s.io"],
)
def test_what_we_have_not_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        choose(accept)
