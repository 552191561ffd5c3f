"""`alcove plane …`: API servers that ring0 does not run, as planes of tenants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.api.foreign_planes import KUBELET_USER
from alcove.cli import suggestions
from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TimeoutOption, WaitOption

if TYPE_CHECKING:
    from alcove.api.foreign_planes import ForeignPlane
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession
    from alcove.client.kubeconfig import KubeconfigUser

app = typer.Typer(help="Join API servers of other clusters as planes of tenants.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the plane.", show_default=False)]
Ring0Option = Annotated[
    Path | None,
    typer.Option("--ring0-kubeconfig", help="Kubeconfig of ring0; default: as of other commands."),
]


@app.command()
def join(
    name: NameArgument,
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            "-t",
            help="The tenant that it serves, of mode Foreign.",
            autocompletion=suggestions.tenants,
        ),
    ],
    kubeconfig: Annotated[
        Path, typer.Option("--kubeconfig", help="Kubeconfig of an administrator of the API server.")
    ],
    context: Annotated[str, typer.Option(help="Context of the kubeconfig; default: the current one.")] = "",
    kubelet_ca: Annotated[
        Path | None,
        typer.Option(
            "--kubelet-ca",
            help="Authority (PEM) of the server's --kubelet-client-certificate; without it, no logs and no exec.",
        ),
    ] = None,
    kubelet_user: Annotated[
        str, typer.Option("--kubelet-user", help="Common name in the server's --kubelet-client-certificate.")
    ] = KUBELET_USER,
    wait: WaitOption = True,
    timeout: TimeoutOption = 60.0,
    via: Ring0Option = None,
) -> None:
    """Join a kube-apiserver: its pods run on this cluster's nodes, in networks of TENANT."""
    from alcove.cli.connection import CliConnection, load
    from alcove.cli.foreign import preparation
    from alcove.cli.session import CliSession, wait_for
    from alcove.client.resources import TENANTS

    with exit_on_error():
        session = CliSession(via)
        owner = session.get(TENANTS, tenant)
        _check_free(session, name, owner)
        user = load(kubeconfig, context)
        plane = _plane(name, tenant, user, kubelet_ca, kubelet_user)
        preparation.prepare(CliConnection(user), timeout)
        _store(session, plane, owner)
        if wait:
            wait_for(f"plane {name} to join", lambda: _has_joined(session, tenant) or None, timeout)
        typer.echo(f"plane/{name} {'joined' if wait else 'configured'}")


def _check_free(session: CliSession, name: str, tenant: Object) -> None:
    """Raises CliError if the tenant cannot have this plane."""
    from alcove.api import names, objects
    from alcove.api.kinds.core.control_planes import is_foreign, mode_of

    if problems := names.dns_subdomain(name):
        raise CliError(f'invalid name "{name}": {problems[0]}', ExitCode.USAGE)
    owner = objects.name(tenant)
    if not is_foreign(tenant):
        raise CliError(
            f"tenant {owner} has the mode {mode_of(tenant)}: its objects are on an API server of ring0; "
            "make a tenant for the plane with `alcove tenant create NAME --foreign`"
        )
    for plane in _planes(session):
        if plane.name == name and plane.tenant != owner:
            raise CliError(f"plane {name} is that of tenant {plane.tenant}")
        if plane.tenant == owner and plane.name != name:
            raise CliError(
                f"tenant {owner} has the plane {plane.name} already: `alcove plane leave {plane.name}` first"
            )


def _plane(
    name: str, tenant: str, user: KubeconfigUser, kubelet_ca: Path | None, kubelet_user: str
) -> ForeignPlane:
    from cryptography import x509

    from alcove.api.foreign_planes import ForeignPlane
    from alcove.api.ids import TenantId

    if not user.ca_pem:
        raise CliError("the kubeconfig has no certificate-authority: the server could be anybody")
    if not user.token and not user.certificate_pem:
        raise CliError(
            "the kubeconfig has neither a client certificate nor a token; commands that print credentials (exec) are not run"
        )
    authority = kubelet_ca.read_bytes() if kubelet_ca is not None else b""
    if kubelet_ca is not None:
        try:
            x509.load_pem_x509_certificate(authority)
        except ValueError as error:
            raise CliError(f"{kubelet_ca} is not a certificate in PEM form") from error
    return ForeignPlane(
        name=name,
        tenant=TenantId(tenant),
        server=user.server,
        authority=user.ca_pem,
        certificate=user.certificate_pem,
        key=user.key_pem,
        token=user.token,
        kubelet_authority=authority,
        kubelet_user=kubelet_user,
    )


def _store(session: CliSession, plane: ForeignPlane, tenant: Object) -> None:
    from alcove.api import foreign_planes
    from alcove.api.ids import SYSTEM
    from alcove.client.resources import NAMESPACES, SECRETS

    namespace = foreign_planes.NAMESPACE
    session.ensure(NAMESPACES, {"metadata": {"name": namespace}})
    secret = foreign_planes.secret_of(plane, tenant["metadata"]["uid"])
    if session.find(SECRETS, plane.name, SYSTEM, namespace) is None:
        session.create(SECRETS, secret, SYSTEM, namespace)
    else:
        session.patch(SECRETS, plane.name, secret, SYSTEM, namespace)


@app.command("list")
def list_(form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None) -> None:
    """List the planes that were joined."""
    from alcove.cli.output import show_rows
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        rows = [
            (plane.name, plane.tenant, plane.server, "yes" if _has_joined(session, plane.tenant) else "no")
            for plane in _planes(session)
        ]
        show_rows(("Name", "Tenant", "Server", "Joined"), rows, form)


@app.command()
def leave(
    name: NameArgument, wait: WaitOption = True, timeout: TimeoutOption = 60.0, via: KubeconfigOption = None
) -> None:
    """Leave a plane: its pods stop on this cluster's nodes; its objects stay as they are."""
    from alcove.api import foreign_planes
    from alcove.api.ids import SYSTEM
    from alcove.cli.session import CliSession, wait_for
    from alcove.client.resources import NODES, SECRETS

    with exit_on_error():
        session = CliSession(via)
        plane = next((each for each in _planes(session) if each.name == name), None)
        if plane is None:
            raise CliError(f"plane {name} not found", ExitCode.NOT_FOUND)
        session.delete(SECRETS, name, SYSTEM, foreign_planes.NAMESPACE)
        if wait:
            wait_for(
                f"plane {name} to leave", lambda: not _has_joined(session, plane.tenant) or None, timeout
            )
            _clean_up(plane, {node["metadata"]["name"] for node in session.items(NODES)})
        typer.echo(f"plane/{name} left")


def _clean_up(plane: ForeignPlane, nodes: set[str]) -> None:
    """As far as its API server is there."""
    from alcove.api.errors import ApiError
    from alcove.cli.connection import CliConnection, ConnectionFailed
    from alcove.cli.foreign import preparation
    from alcove.client.kubeconfig import KubeconfigUser

    user = KubeconfigUser(plane.server, plane.authority, plane.certificate, plane.key, plane.token)
    try:
        preparation.clean_up(CliConnection(user), nodes)
    except (ApiError, ConnectionFailed) as error:
        typer.echo(f"warning: nodes and finalizers stay on {plane.server}: {error}", err=True)


def _planes(session: CliSession) -> list[ForeignPlane]:
    from alcove.api import foreign_planes
    from alcove.api.ids import SYSTEM
    from alcove.client.resources import SECRETS

    secrets = session.items(SECRETS, SYSTEM, foreign_planes.NAMESPACE)
    return [plane for secret in secrets if (plane := foreign_planes.plane_of(secret)) is not None]


def _has_joined(session: CliSession, tenant: str) -> bool:
    from alcove.api import objects
    from alcove.client.resources import TENANTS

    found = session.find(TENANTS, tenant) or {}
    conditions = objects.get(found, "status", "conditions", default=[])
    return any(each["type"] == "Joined" and each["status"] == "True" for each in conditions)
