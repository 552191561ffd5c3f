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
    via: KubeconfigOption = None,
) -> None:
    """Save all objects of a tenant, as they are at one revision. Files in volumes are not saved."""
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup import places, pruning
    from alcove.cli.tenant_backup.saving import save

    with exit_on_error():
        passphrase = places.read_passphrase(passphrase_file)
        session = CliSession(via)
        if not _find(session, name)[1]:
            raise CliError(f'tenants "{name}" not found', ExitCode.NOT_FOUND)
        size_bytes_max = _size(size_max)
        if keep and not output.endswith(pruning.SUFFIX):
            raise CliError(f"--keep needs an output that ends with {pruning.SUFFIX}", ExitCode.USAGE)
        if keep and not output.startswith(places.S3):
            Path(output).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        began = time.monotonic()
        with places.writing(output, passphrase) as out:
            saved = save(session.connection, name, out, size_bytes_max)
        seconds = time.monotonic() - began
        removed = pruning.prune(output, keep) if keep else []
    size = f"{saved.size_bytes >> 10} KiB in {seconds:.1f} s"
    typer.echo(
        f"saved {saved.objects} objects of tenant {name} at revision {saved.revision}: {output}, {size}"
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
    timeout: TimeoutOption = 60.0,
    via: KubeconfigOption = None,
) -> None:
    """Restore the objects of a tenant; it is created if it does not exist. The backup is verified before."""
    from alcove.cli.session import CliSession
    from alcove.cli.tenant_backup import places

    with exit_on_error():
        passphrase = places.read_passphrase(passphrase_file)
        with places.local_copy(source) as file:
            archive = partial(places.reading, file, passphrase)
            _restore(CliSession(via), archive, tenant, existing, {}, timeout)


def clone(
    name: TenantArgument,
    target: Annotated[str, typer.Argument(help="Name of the tenant to create.", show_default=False)],
    timeout: TimeoutOption = 60.0,
    via: KubeconfigOption = None,
) -> None:
    """Create a tenant with the objects that another one has now. Files in volumes are not copied."""
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
                save(session.connection, name, out)
            _restore(session, partial(places.reading, file, b""), target, Existing.REFUSE, copied, timeout)


def _restore(
    session: CliSession, archive: OpenArchive, tenant: str, existing: Existing, spec: Object, timeout: float
) -> None:
    from alcove.cli.tenant_backup.archive import ArchiveReader
    from alcove.cli.tenant_backup.restoring import Restorer, verify

    with archive() as stream:
        target = tenant or ArchiveReader(stream).header.tenant
    if target == "system":
        raise CliError("the system tenant is not restored this way: see `alcove restore`", ExitCode.USAGE)
    is_ring0, is_there = _find(session, target)
    verified = verify(archive, session.connection, target if is_there else None, existing)
    if not is_there:
        _create(session, target, spec, timeout)
    restorer = Restorer(partial(_connect, session), target, existing, as_admin=is_ring0)
    _show(target, verified.header.revision, restorer.restore(archive, verified))


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
    typer.echo(f"restored tenant {tenant} from revision {revision}: {shown}")
    for reason, number in sorted(report.skipped.items()):
        typer.echo(f"  not restored: {number} {reason}")
    if report.failed:
        for failure in report.failures:
            typer.echo(f"  failed: {failure}", err=True)
        raise CliError(f"{report.failed} objects of tenant {tenant} could not be restored")
