"""Ring0's AuthenticationConfiguration: bad files are refused by field, and change nothing when they come later."""

import time
from pathlib import Path

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth.oidc import config_file
from alcove.apiserver.auth.oidc.config_file import FILE_BYTES_MAX, AuthenticationConfigError, Ring0Providers
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import ProviderParts
from alcove.apiserver.computing import ComputeThreads
from alcove.http.turns import ReadingTurns
from alcove.testing.webhook_calls import webhook_dialer

ONE, TWO = "https://one.example", "https://two.example"
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"


def entry(url: str, claim: str = "sub", more: str = "") -> str:
    return f"""
- issuer: {{url: "{url}", audiences: [cluster]}}
  claimMappings: {{username: {{claim: {claim}, prefix: ""}}}}
  {more}
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def parts() -> ProviderParts:
    client = IssuerClient(webhook_dialer(), ReadingTurns(), ComputeThreads())
    return ProviderParts(client, ComputeThreads(), time.time, FetchCounts())


def test_several_issuers_in_any_served_version(tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", HEAD + "jwt:" + entry(ONE) + entry(TWO))
    assert [each.issuer.url for each in config_file.load(path)] == [ONE, TWO]
    beta = path.read_text().replace("/v1\n", "/v1beta1\n")
    assert len(config_file.load(written(tmp_path / "b.yaml", beta))) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "expected|Expected"),
        ("apiVersion: v1\nkind: ConfigMap\n", "expected apiVersion apiserver.config.k8s.io/v1"),
        (HEAD + "jwt: 7\n", r"\$\.jwt"),
        (HEAD + "jwt:" + entry(ONE, more="unknown: 1"), "unknown field `unknown`"),
        (HEAD + "jwt:" + entry("http://one.example"), r"jwt\[0\]\.issuer\.url"),
        (HEAD + "jwt:" + entry(ONE) + entry(ONE), r"jwt\[1\]\.issuer\.url: Duplicate value"),
        (HEAD + "jwt:" + entry(ONE, more="userValidationRules: [{expression: '1'}]"), "userValidationRules"),
        (
            HEAD + "jwt:" + entry("https://kubernetes.default.svc.cluster.local/tenants/system"),
            "service account",
        ),
        (HEAD + "anonymous: {enabled: true}\n", r"anonymous\.enabled"),
        (HEAD + "jwt:" + entry(ONE) * 65, "jwt: Too many"),
        ("{" * 50, "authn"),
        ("#" * (FILE_BYTES_MAX + 1), "more than"),
    ],
)
def test_a_bad_file_is_refused_and_the_field_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(AuthenticationConfigError, match=named):
        config_file.load(written(tmp_path / "authn.yaml", text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationConfigError, match="No such file"):
        config_file.load(tmp_path / "none.yaml")


async def test_a_change_is_used_and_a_bad_one_is_not(tmp_path: Path) -> None:
    path = written(tmp_path / "authn.yaml", HEAD + "jwt:" + entry(ONE))
    providers = Ring0Providers(path, parts())
    (first,) = providers.of(SYSTEM, ONE)
    assert not providers.of(TenantId("acme"), ONE), "the file is for ring0's users"
    written(path, HEAD + "jwt:" + entry(ONE) + entry(TWO))
    await providers.reload()
    assert providers.of(SYSTEM, ONE) == (first,) and providers.of(SYSTEM, TWO)
    for bad in (HEAD + "jwt:" + entry("http://x"), "{"):
        written(path, bad)
        await providers.reload()
        await providers.reload()
        assert providers.of(SYSTEM, ONE) == (first,)
    assert dict(providers.reloads) == {"success": 1, "failure": 2}
    written(path, HEAD + "jwt:" + entry(ONE, "email"))
    await providers.reload()
    assert providers.of(SYSTEM, ONE) != (first,) and not providers.of(SYSTEM, TWO)
    path.unlink()
    await providers.reload()
    assert providers.of(SYSTEM, ONE) and providers.has_any
    assert dict(providers.reloads) == {"success": 2, "failure": 3}
