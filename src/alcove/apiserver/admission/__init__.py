"""Admission: the ordered list of what a write must pass between its decoding and the store."""

from collections.abc import Callable, Sequence

from alcove.apiserver.admission.base import Plugin
from alcove.apiserver.admission.escalation import Escalation
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
        Escalation(authorizer),
        CertificateRequests(authorizer, authority, clock),
        TokenSecrets(reader, tokens, authority.certificate_pem),
    )
