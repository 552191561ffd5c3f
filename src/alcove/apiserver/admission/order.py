"""The ordered list of what a write must pass between its decoding and the store."""

from collections.abc import Callable, Sequence

from alcove.apiserver.admission.base import Plugin
from alcove.apiserver.admission.escalation import Escalation
from alcove.apiserver.admission.lifecycle import NamespaceLifecycle, TenantLifecycle
from alcove.apiserver.admission.priority import Priority
from alcove.apiserver.admission.runtimeclass import RuntimeClass
from alcove.apiserver.admission.serviceaccount import ServiceAccount
from alcove.apiserver.admission.storageclass import DefaultStorageClass
from alcove.apiserver.auth.certificates import Authority
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.auth.tokensecrets import TokenSecrets
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.reader import Kinds, Reader
from alcove.apiserver.signing import CertificateRequests


def plugins(
    reader: Reader,
    kinds: Kinds,
    authorizer: Authorizer,
    tokens: Tokens,
    authority: Authority,
    clock: Callable[[], float],
) -> Sequence[Plugin]:
    """In the order they run."""
    return (
        TenantLifecycle(reader),
        NamespaceLifecycle(reader),
        ServiceAccount(reader),
        TokenSecrets(reader, tokens, authority.certificate_pem),
        Priority(reader),
        RuntimeClass(reader),
        DefaultStorageClass(reader),
        CertificateRequests(authorizer, authority, clock),
        Escalation(authorizer),
    )
