"""Runs Kubernetes' conformance suite against a cluster, prints what passed, and compares with `results.txt`.

    make conformance E2E_BIN=DIRECTORY [KUBECONFIG=FILE] [PLACE=tenant|trusted|ring0] [PROCS=8] [MINUTES=180] [FOCUS=REGEX]

E2E_BIN       holds `e2e.test`, `ginkgo` and `kubectl` of one release of Kubernetes
KUBECONFIG    of the tenant or ring0 to test; without it, a tenant is created in this machine's cluster, and deleted
E2E_IMAGES    a directory of image archives, which are loaded on this machine's nodes first
PLACE         what that kubeconfig is allowed to do; default `tenant`
PROCS, NODES  tests at once, default 8; nodes of the cluster, default 3
MINUTES       for the parallel tests, and for the serial ones; default 180. What runs then counts as failed
FOCUS         only the tests whose names match; ALL=1 also those that `results.txt` does not list as passing there
UPDATE        1: write what passed into `results.txt`
OUT           where reports and logs go; default `build/conformance`

Ends with 1 if a test that is listed as passing at this place failed or did not run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alcove.testing.conformance import (
    Comparison,
    Listed,
    Place,
    SpecOutcome,
    compare,
    outcomes,
    passing,
    read_list,
    slowest,
    table,
    updated,
    write_list,
)

LIST = Path(__file__).with_name("results.txt")
HEADER = "Where each conformance test of Kubernetes passes; `make conformance` compares with it, and with UPDATE=1 changes it."
ALCOVE = Path(sys.executable).with_name("alcove")
TENANT = "conformance"
SERIAL = r"\[Serial\]|\[Disruptive\]"
CONFORMANCE = r"\[Conformance\]"
TOOLS = ("e2e.test", "ginkgo", "kubectl")
SLOWEST = 20
PAUSE = "registry.k8s.io/pause:3.10.2"


class Settings:
    """What the environment asks for; raises SystemExit with a message where it cannot be had."""

    def __init__(self, environment: os._Environ[str]) -> None:
        self.tools = Path(environment.get("E2E_BIN") or sys.exit("E2E_BIN must name a directory; see --help"))
        for name in TOOLS:
            if not os.access(self.tools / name, os.X_OK):
                sys.exit(f"E2E_BIN: {self.tools / name} is not an executable file")
        self.kubeconfig = environment.get("KUBECONFIG", "")
        self.images = environment.get("E2E_IMAGES", "")
        self.place = Place(environment.get("PLACE") or Place.TENANT)
        self.procs = int(environment.get("PROCS") or 8)
        self.minutes = int(environment.get("MINUTES") or 180)
        self.nodes = int(environment.get("NODES") or 3)
        self.focus = environment.get("FOCUS", "")
        self.run_all = bool(environment.get("ALL"))
        self.update = bool(environment.get("UPDATE"))
        self.out = Path(environment.get("OUT") or "build/conformance").absolute()


def main() -> int:
    if {"-h", "--help"} & set(sys.argv):
        sys.stdout.write(__doc__ or "")
        return 0
    settings = Settings(os.environ)
    settings.out.mkdir(parents=True, exist_ok=True)
    listed = read_list(LIST.read_text()) if LIST.exists() else {}
    if settings.images:
        load_images(Path(settings.images))
    with kubeconfig(settings) as path:
        wanted = select(names(settings, path), listed, settings)
        if not wanted:
            sys.exit("no test is to be run: see FOCUS, PLACE and ALL")
        serial = [name for name in wanted if re.search(SERIAL, name)]
        parallel = [name for name in wanted if name not in serial]
        ran = run(settings, path, "parallel", parallel, settings.procs) + run(
            settings, path, "serial", serial, 1
        )
    for line in (*table(ran), f"the {SLOWEST} that took longest:", *slowest(ran, SLOWEST)):
        say(line)
    for each in ran:
        if not each.passed:
            say(f"failed: {each.name}\n    {' '.join(each.message.split())[:300]}")
    if settings.update:
        LIST.write_text(write_list(updated(listed, ran, settings.place), HEADER))
    return report(compare(listed, ran, settings.place, wanted))


def select(every: Sequence[str], listed: Listed, settings: Settings) -> list[str]:
    """The tests to run: conformance tests that match, and of these those that are listed as passing at the place.
    Without a list, all that match."""
    matching = [name for name in every if re.search(CONFORMANCE, name) and re.search(settings.focus, name)]
    if settings.run_all or not listed:
        return matching
    known = frozenset(passing(listed, settings.place))
    return [name for name in matching if name in known]


def names(settings: Settings, path: Path) -> list[str]:
    """The names of all tests of the suite."""
    ran = call([settings.tools / "e2e.test", "--list-tests", f"--kubeconfig={path}"])
    # A line of the listing is `file:line: name`.
    return [match[1] for line in ran.splitlines() if (match := re.search(r"\.go:\d+: (\[sig-.*)$", line))]


def run(settings: Settings, path: Path, title: str, wanted: Sequence[str], procs: int) -> list[SpecOutcome]:
    """Run the named tests, and read ginkgo's report."""
    if not wanted:
        return []
    say(f"{title}: {len(wanted)} tests, {procs} at once; log: {settings.out / title}.log")
    report = settings.out / f"{title}.json"
    report.unlink(missing_ok=True)
    command: list[str | Path] = [settings.tools / "ginkgo", "-v", "--no-color", "--keep-going"]
    command += [f"--procs={procs}", f"--timeout={settings.minutes}m", f"--json-report={report.name}"]
    command += [f"--output-dir={settings.out}", *(f"--focus= {re.escape(name)}$" for name in wanted)]
    command += [settings.tools / "e2e.test", "--", f"--kubeconfig={path}", "--provider=skeleton"]
    command += ["--allowed-not-ready-nodes=-1", f"--kubectl-path={settings.tools / 'kubectl'}"]
    command += ["--kube-api-content-type=application/json"]
    begin = time.monotonic()
    with (settings.out / f"{title}.log").open("wb") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    say(f"{title}: took {time.monotonic() - begin:.0f} s")
    if not report.exists():
        sys.exit(f"ginkgo wrote no report; see {settings.out / title}.log")
    return outcomes(report.read_bytes())


def report(difference: Comparison) -> int:
    for name in difference.gained:
        say(f"passes now: {name}")
    for name in difference.regressed:
        say(f"passed before, fails now: {name}")
    for name in difference.missing:
        say(f"passed before, did not run: {name}")
    return 1 if difference.regressed or difference.missing else 0


# The cluster


def load_images(directory: Path) -> None:
    archives = sorted(directory.glob("*.tar"))
    if not archives:
        sys.exit(f"E2E_IMAGES: there is no archive in {directory}")
    for archive in archives:
        call([ALCOVE, "image", "load", archive])


@contextmanager
def kubeconfig(settings: Settings) -> Iterator[Path]:
    """The kubeconfig that was given, or that of a tenant created here and deleted at the end. Its nodes are shown to it."""
    if settings.kubeconfig:
        path = Path(settings.kubeconfig).absolute()
        with presence(settings, path):
            yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "kubeconfig")
        call([ALCOVE, "tenant", "create", TENANT])
        try:
            call([ALCOVE, "tenant", "kubeconfig", TENANT, "--output", path])
            with presence(settings, path):
                yield path
        finally:
            call([ALCOVE, "tenant", "delete", TENANT])


@contextmanager
def presence(settings: Settings, path: Path) -> Iterator[None]:
    """A pod on each node while the tests run: a tenant sees the nodes that its pods are on, and many tests count nodes."""
    if settings.place is Place.RING0:
        yield
        return
    kubectl: list[str | Path] = [settings.tools / "kubectl", f"--kubeconfig={path}"]
    labels = {"app": "presence"}
    apart = [{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]
    spec = {
        "containers": [{"name": "pause", "image": PAUSE, "imagePullPolicy": "IfNotPresent"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "presence", "namespace": "kube-public"},
        "spec": {
            "replicas": settings.nodes,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    call([*kubectl, "apply", "-f", "-"], json.dumps(deployment))
    try:
        call([*kubectl, "-n", "kube-public", "rollout", "status", "deployment/presence", "--timeout=5m"])
        yield
    finally:
        call([*kubectl, "-n", "kube-public", "delete", "deployment", "presence"])


def call(command: Sequence[str | Path], stdin: str = "") -> str:
    """What the command prints; ends the program with its errors if it fails."""
    completed = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {completed.stderr.strip() or completed.stdout.strip()}")
    return completed.stdout


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
