"""Templates of the first network."""

from pathlib import Path

import pytest

from alcove.api.ids import TenantId
from alcove.controllers.tenants.template import BadTemplate, NetworkTemplate

ACME = TenantId("acme")


def test_without_a_file_it_is_flat() -> None:
    assert NetworkTemplate.load(None).render(ACME) == {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "Network",
        "metadata": {"name": "default", "tenant": "acme"},
        "spec": {"type": "flat"},
    }


@pytest.mark.parametrize("mark", ["{{.}}", "{{ . }}", "{{tenant}}", "{{ tenant }}", "{{- tenant -}}"])
def test_the_tenants_name_is_filled_in(mark: str) -> None:
    made = NetworkTemplate(f"spec: {{type: vpc, vpcID: 'v-{mark}'}}").render(ACME)
    assert made["spec"]["vpcID"] == "v-acme"


def test_the_network_is_the_tenants_own_whatever_it_says() -> None:
    template = NetworkTemplate("metadata: {name: default, tenant: system}\nspec: {type: flat}")
    assert template.render(ACME)["metadata"]["tenant"] == "acme"
    assert template.render(TenantId("b"))["metadata"]["tenant"] == "b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "neither JSON nor YAML"),
        ("[]", "has no spec"),
        ("metadata: {}", "has no spec"),
        ("spec: flat", "has no spec"),
        ("kind: Vpc\nspec: {}", "describes a Vpc"),
        ("metadata: []\nspec: {}\n", "flat"),
    ],
)
def test_an_invalid_template_is_reported_at_once(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "template"
    path.write_text(text)
    if message == "flat":
        assert NetworkTemplate.load(path).render(ACME)["metadata"]["name"] == "default"
        return
    with pytest.raises(BadTemplate, match=message):
        NetworkTemplate.load(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadTemplate, match="cannot read"):
        NetworkTemplate.load(tmp_path / "none")
