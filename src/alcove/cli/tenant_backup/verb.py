"""`alcove tenant backup`, `restore` and `clone`."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import KubeconfigOption, TenantArgument, TimeoutOption
from alcove.cli.tenant_backup.existing import Existing

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.connection import CliConnection
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup.restoring import OpenArchive, RestoreReport
    from alcove.cli.tenant_backup.volumes import VolumePods

PassphraseOption = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="Encrypt or decrypt the backup with the passphrase in this file."),
]
ExistingOption = Annotated[
    Existing,
    typer.Option(
        "--existing",
        help="What to do if the tenant has objects of the backup: refuse, keep or overwrite them.",
    ),
]
VolumesOption = Annotated[
    bool,
    typer.Option(
        "--volumes", help="With the files in volumes, read by a pod of the tenant for each; needs kubectl."
    ),
]
_NOT_CLONED = ("domains", "revokedCertificates", "sleep", "backup", "finalizers", "storageClusterId")
"""Fields of a Tenant that are about the one tenant."""


def backup(
    name: TenantArgument,
    output: Annotated[str, typer.Option("--output", "-o", help="File to create, or s3://BUCKET/KEY.")],
    passphrase_file: PassphraseOption = None,
    keep: Annotated[
        int,
        typer.Option(
            min=0,
            help="Afterwards remove all but so many of the files `*.backup` in the folder of the new one, which must be "
            "named so too; the last by name stay. 0: remove none.",
        ),
    ] = 0,
    size_max: Annotated[
        str, typer.Option("--size-max", help="Give up a backup that is larger, for example 10Gi.")
    ] = "",
    volumes: VolumesOption = False,
    via: KubeconfigOption = None,
) -> None:
    """Save all objects of a tenant, as they are at one revision, and the files in its volumes if asked."""
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup import places, pruning
    from alcove.cli.tenant_backup.saving import save

    with exit_on_error():
        passphrase = places.read_passphrase(passphrase_file)
        session = CliSession(via)
        is_ring0, is_there = _find(session, name)
        if not is_there:
            raise CliError(f'tenants "{name}" not found', ExitCode.NOT_FOUND)
        size_bytes_max = _size(size_max)
        if keep and not output.endswith(pruning.SUFFIX):
            raise CliError(f"--keep needs an output that ends with {pruning.SUFFIX}", ExitCode.USAGE)
        if keep and not output.startswith(places.S3):
            Path(output).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        began = time.monotonic()
        with places.writing(output, passphrase) as out:
            read = _volume_pods(session, name, is_ring0=is_ring0).read if volumes else None
            saved = save(session.connection, name, out, size_bytes_max, read)
        seconds = time.monotonic() - began
        removed = pruning.prune(output, keep) if keep else []
    size = f"{saved.size_bytes >> 10} KiB in {seconds:.1f} s"
    typer.echo(
        f"saved {saved.objects} objects{_volumes_text(saved.volumes)} of tenant {name} at revision "
        f"{saved.revision}: {output}, {size}"
    )
    for place in removed:
        typer.echo(f"removed {place}")


def restore(
    source: Annotated[str, typer.Argument(help="File of `alcove tenant backup`, or s3://BUCKET/KEY.")],
    tenant: Annotated[
        str, typer.Option("--tenant", "-t", help="Tenant to restore to; default: that of the backup.")
    ] = "",
    existing: ExistingOption = Existing.REFUSE,
    passphrase_file: PassphraseOption = None,
    no_volumes: Annotated[
        bool, typer.Option("--no-volumes", help="Without the files in volumes that the backup has.")
    ] = False,
    timeout: TimeoutOption = 60.0,
    via: KubeconfigOption = None,
) -> None:
    """Restore the objects of a tenant, and the files in its volumes if the backup has them; the tenant is created if it does
    not exist. The backup is verified before."""
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup import places

    with exit_on_error():
        passphrase = places.read_passphrase(passphrase_file)
        with places.local_copy(source) as file:
            archive = partial(places.reading, file, passphrase)
            _restore(CliSession(via), archive, tenant, existing, {}, timeout, with_volumes=not no_volumes)


def clone(
    name: TenantArgument,
    target: Annotated[str, typer.Argument(help="Name of the tenant to create.", show_default=False)],
    volumes: VolumesOption = False,
    timeout: TimeoutOption = 60.0,
    via: KubeconfigOption = None,
) -> None:
    """Create a tenant with the objects that another one has now, and the files in its volumes if asked."""
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup import places
    from alcove.cli.tenant_backup.saving import save
    from alcove.client.resources import TENANTS

    with exit_on_error():
        session = CliSession(via)
        spec = session.get(TENANTS, name).get("spec") or {}
        if session.find(TENANTS, target) is not None:
            raise CliError(f'tenants "{target}" already exists')
        copied = {field: value for field, value in spec.items() if field not in _NOT_CLONED}
        with tempfile.TemporaryDirectory(prefix="alcove-clone-") as directory:  # Mode 0700.
            file = Path(directory) / "backup"
            with places.writing(str(file), b"") as out:
                read = _volume_pods(session, name, is_ring0=True).read if volumes else None
                save(session.connection, name, out, 0, read)
            archive = partial(places.reading, file, b"")
            _restore(session, archive, target, Existing.REFUSE, copied, timeout, with_volumes=volumes)


def _restore(
    session: CliSession,
    archive: OpenArchive,
    tenant: str,
    existing: Existing,
    spec: Object,
    timeout: float,
    *,
    with_volumes: bool,
) -> None:
    from alcove.cli.tenant_backup.archive import ArchiveReader
    from alcove.cli.tenant_backup.restoring import Restorer, verify

    with archive() as stream:
        target = tenant or ArchiveReader(stream).header.tenant
    if target == "system":
        raise CliError("the system tenant is not restored this way: see `alcove restore`", ExitCode.USAGE)
    is_ring0, is_there = _find(session, target)
    verified = verify(archive, session.connection, target if is_there else None, existing)
    has_files = with_volumes and bool(verified.claims)
    write = _volume_pods(session, target, is_ring0=is_ring0).writing if has_files else None
    if not is_there:
        _create(session, target, spec, timeout)
    connect = partial(_connect, session)
    restorer = Restorer(connect, target, existing, as_admin=is_ring0, write_volume=write)
    _show(target, verified.header.revision, restorer.restore(archive, verified))


def _volume_pods(session: CliSession, tenant: str, *, is_ring0: bool) -> VolumePods:
    from alcove.cli.tenant_backup.restoring import impersonation
    from alcove.cli.tenant_backup.volumes import VolumePods

    headers = impersonation(tenant) if is_ring0 else {}
    return VolumePods(_connect(session), session.kubeconfig, tenant, headers)


def _volumes_text(count: int) -> str:
    return f" and the files of {count} volumes" if count else ""


def _size(text: str) -> int:
    """Bytes; 0 if it is empty."""
    from alcove.api import quantity

    try:
        return quantity.parse(text).value if text else 0
    except quantity.QuantityError as error:
        raise CliError(f"--size-max {text}: {error}", ExitCode.USAGE) from error


def _connect(session: CliSession) -> CliConnection:
    """Another connection of the same user."""
    from alcove.cli.session import CliSession

    return CliSession(session.kubeconfig).connection


def _find(session: CliSession, tenant: str) -> tuple[bool, bool]:
    """Whether the caller is ring0, and whether the tenant exists. A tenant's own users may not read Tenants."""
    from alcove.api.errors import Forbidden
    from alcove.client.resources import TENANTS

    try:
        return True, session.find(TENANTS, tenant) is not None
    except Forbidden:
        return False, True


def _create(session: CliSession, tenant: str, spec: Object, timeout: float) -> None:
    from alcove.cli.tenant import wait_ready
    from alcove.client.resources import TENANTS

    body = {"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": tenant}, "spec": spec}
    session.create(TENANTS, body)
    wait_ready(session, tenant, timeout)


def _show(tenant: str, revision: str, report: RestoreReport) -> None:
    counts = {"created": report.created, "updated": report.updated, "kept": report.kept}
    shown = ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "nothing to restore"
    files = f", files of {report.volumes} volumes" if report.volumes else ""
    typer.echo(f"restored tenant {tenant} from revision {revision}: {shown}{files}")
    for reason, number in sorted(report.skipped.items()):
        typer.echo(f"  not restored: {number} {reason}")
    if report.failed:
        for failure in report.failures:
            typer.echo(f"  failed: {failure}", err=True)
        raise CliError(f"{report.failed} objects of tenant {tenant} could not be restored")
