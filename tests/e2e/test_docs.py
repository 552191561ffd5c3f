"""The documentation is true: its manifests apply, its links lead somewhere, its reference is what the code says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing.cluster import tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import Caller, LocalServer, wait_until

ROOT = Path(__file__).parents[2]
DOCS = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
_RING0_KINDS = ("kind: Tenant", "kind: Vpc", "kind: Subnet")


def manifests() -> list[tuple[str, str]]:
    """(page, YAML) of every manifest that a page shows."""
    found = [
        (page.name, block)
        for page in DOCS
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S)
    ]
    return [(page, block) for page, block in found if "apiVersion:" in block and "{{" not in block]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory = tmp_path_factory.mktemp("docs")
    with LocalServer(directory) as server, LocalControllers(server, directory):
        server.system.kubectl("apply", "-f", str(ROOT / "examples" / "tenant.yaml"))
        wait_until(lambda: tenant_is_ready(server, "acme"))
        yield server


@pytest.mark.parametrize(("page", "manifest"), manifests())
def test_a_manifest_of_the_docs_applies(
    cluster: LocalServer, tmp_path: Path, page: str, manifest: str
) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(manifest)
    is_ring0 = any(kind in manifest for kind in _RING0_KINDS)
    caller: Caller = cluster.system if is_ring0 else cluster.as_tenant("acme")
    message = caller.kubectl("apply", "--dry-run=server", "-f", str(file))
    assert "(server dry run)" in message, page


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_reference_is_what_the_code_says() -> None:
    completed = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], timeout=110)
    assert completed.returncode == 0, "run `make docs`"
