"""The ordered list of what a write must pass between its decoding and the store."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.admission.base import Plugin
from alcove.apiserver.admission.daemonset import DaemonSetAdmission
from alcove.apiserver.admission.escalation import Escalation
from alcove.apiserver.admission.ingressclass import DefaultIngressClass
from alcove.apiserver.admission.lifecycle import NamespaceLifecycle, StillLiving, TenantLifecycle
from alcove.apiserver.admission.limitranger import LimitRanger
from alcove.apiserver.admission.noderestriction import NodeRestriction
from alcove.apiserver.admission.podsecurity.levels import Level
from alcove.apiserver.admission.podsecurity.plugin import PodSecurity
from alcove.apiserver.admission.policy import MutatingPolicies, ValidatingPolicies
from alcove.apiserver.admission.priority import Priority
from alcove.apiserver.admission.resourcequota.plugin import ResourceQuota
from alcove.apiserver.admission.runtimeclass import RuntimeClass
from alcove.apiserver.admission.serviceaccount import ServiceAccount
from alcove.apiserver.admission.storageclass import ClaimResize, DefaultStorageClass
from alcove.apiserver.admission.storageprotection import StorageProtection
from alcove.apiserver.admission.storagevolumes import LocalVolumeAdmission
from alcove.apiserver.admission.tolerationseconds import DefaultTolerationSeconds
from alcove.apiserver.admission.webhooks.caller import WebhookCaller
from alcove.apiserver.admission.webhooks.mutating import MutatingWebhooks
from alcove.apiserver.admission.webhooks.validating import ValidatingWebhooks
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.auth.tokensecrets import TokenSecretAdmission
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.signing import CertificateRequests


class AdmissionSettings(Struct, frozen=True, kw_only=True):
    """What ring0 decides about admission when it starts a server."""

    home: TenantId = SYSTEM
    """The tenant whose server this is: it is always there."""
    pod_security_ceiling: Level = Level.BASELINE
    """The most that tenants' pods may have, whatever their namespaces' labels say."""
    tenant_daemon_sets: bool = False
    """Tenants may have DaemonSets too."""


DEFAULT = AdmissionSettings()


def plugins(
    cache: Cache,
    kinds: ServedKinds,
    authorizer: Authorizer,
    tokens: Tokens,
    authority: CertificateAuthority,
    clock: Callable[[], float],
    webhooks: Webhooks,
    settings: AdmissionSettings = DEFAULT,
    *,
    shared: bool = False,
) -> Sequence[Plugin]:
    """In the order they run. `shared`: other servers write to the store too."""
    calling = WebhookCaller(cache, authorizer, webhooks)
    return (
        TenantLifecycle(cache, settings.home),
        NamespaceLifecycle(cache),
        NodeRestriction(cache),
        DaemonSetAdmission(tenants_may=settings.tenant_daemon_sets),
        LimitRanger(cache),
        ServiceAccount(cache),
        TokenSecretAdmission(cache, tokens, authority.certificate_pem),
        Priority(cache),
        DefaultTolerationSeconds(),
        RuntimeClass(cache),
        DefaultStorageClass(cache),
        ClaimResize(cache),
        StorageProtection(),
        LocalVolumeAdmission(),
        DefaultIngressClass(cache),
        PodSecurity(cache, settings.pod_security_ceiling),
        CertificateRequests(authorizer, authority, clock),
        Escalation(authorizer),
        # The tenant's own rules see the object as all of the above left it.
        MutatingPolicies(cache, kinds, authorizer),
        MutatingWebhooks(cache, kinds, calling),
        ValidatingPolicies(cache, kinds, authorizer),
        ValidatingWebhooks(cache, kinds, calling),
        StillLiving(cache, settings.home, shared=shared),
        # Last: what is charged here is written, or the write does not happen.
        ResourceQuota(cache, clock, settings.home),
    )
