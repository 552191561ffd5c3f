"""Dedicated planes: the connection to a tenant's own API server, and its users' certificates, which ring0 keeps."""

from __future__ import annotations

import base64

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.control_planes import is_dedicated, is_foreign
from alcove.api.kinds.core.plane_sleep import is_stopped
from alcove.api.objects import Object
from alcove.cli.connection import CliConnection
from alcove.cli.errors import CliError
from alcove.cli.kubeconfig import KubeconfigCertificate
from alcove.cli.session import CliSession
from alcove.client import kubeconfig
from alcove.client.resources import SECRETS

NAMESPACE = "kube-system"


def connection_of(session: CliSession, tenant: Object) -> CliConnection:
    """The connection to the API server that serves the tenant. Raises CliError if it has none yet.

    One that is stopped is started by a request to the home plane, which forwards it."""
    if is_foreign(tenant):
        raise CliError(
            f"tenant {objects.name(tenant)} has an API server that ring0 does not run: ask its administrator"
        )
    if not is_dedicated(tenant) or is_stopped(tenant):
        return session.connection
    status = tenant.get("status") or {}
    server = status.get("endpoint")
    authority = objects.get(status, "controlPlane", "certificateAuthority", default="")
    if not server or not authority:
        error = objects.get(status, "controlPlane", "lastError", default="") or "it is starting"
        raise CliError(f"the API server of tenant {objects.name(tenant)} is not ready: {error}")
    return session.connection.elsewhere(server, authority.encode())


def stored_certificate(session: CliSession, tenant: str, user: str) -> KubeconfigCertificate | None:
    """The certificate of a user in `spec.controlPlane.users`, which ring0 renews; None if there is none."""
    secret = session.find(SECRETS, f"plane-{tenant}.{user}", SYSTEM, NAMESPACE)
    if secret is None:
        return None
    stored = kubeconfig.parse(base64.b64decode(objects.get(secret, "data", "kubeconfig", default="")))
    return KubeconfigCertificate(stored.certificate_pem, stored.key_pem)
