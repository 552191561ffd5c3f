"""The ordered list of admission plugins."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.registry import KindRegistry
from alcove.apiserver.admission.admission_objects import AdmissionObjectBounds
from alcove.apiserver.admission.apiservices import ApiServiceClaims
from alcove.apiserver.admission.base import Plugin
from alcove.apiserver.admission.configuration_bounds import ConfigurationBounds
from alcove.apiserver.admission.daemonset import DaemonSetAdmission
from alcove.apiserver.admission.default_classes import DefaultIngressClass, DefaultStorageClass
from alcove.apiserver.admission.devicetaints import DeviceTaintTime
from alcove.apiserver.admission.escalation import Escalation
from alcove.apiserver.admission.flowcontrol import FlowControlBounds
from alcove.apiserver.admission.identityproviders import IdentityProviders
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
from alcove.apiserver.admission.services.plugin import ServiceAllocation
from alcove.apiserver.admission.services.ranges import ServiceRanges
from alcove.apiserver.admission.signers import Signers
from alcove.apiserver.admission.sleep import SleepAdmission
from alcove.apiserver.admission.storage import ClaimResize, LocalVolumeAdmission, StorageProtection
from alcove.apiserver.admission.tolerationseconds import DefaultTolerationSeconds
from alcove.apiserver.admission.webhooks.caller import WebhookCaller
from alcove.apiserver.admission.webhooks.mutating import MutatingWebhooks
from alcove.apiserver.admission.webhooks.validating import ValidatingWebhooks
from alcove.apiserver.aggregation.trust import ExtensionTrust
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.auth.tokensecrets import TokenSecretAdmission
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.signing import CertificateRequests


class AdmissionSettings(Struct, frozen=True, kw_only=True):
    """Admission settings of a server, configured by ring0."""

    home: TenantId = SYSTEM
    """The tenant whose server this is: on a dedicated plane, controllers allocate node ports."""
    pod_security_ceiling: Level = Level.BASELINE
    """The most privileged level of tenants' pods, whatever the labels of their namespaces say."""
    tenant_daemon_sets: bool = False
    """Whether tenants may create DaemonSets."""


DEFAULT = AdmissionSettings()


def plugins(
    cache: Cache,
    kinds: ServedKinds,
    registry: KindRegistry,
    authorizer: Authorizer,
    tokens: Tokens,
    authority: CertificateAuthority,
    clock: Callable[[], float],
    webhooks: Webhooks,
    trust: ExtensionTrust,
    threads: ComputeThreads,
    settings: AdmissionSettings = DEFAULT,
    *,
    shared: bool = False,
) -> Sequence[Plugin]:
    """The plugins in the order in which they run. `shared`: other servers write to the same store."""
    caller = WebhookCaller(cache, authorizer, webhooks, threads)
    return (
        TenantLifecycle(cache),
        NamespaceLifecycle(cache),
        SleepAdmission(cache),
        NodeRestriction(cache),
        DaemonSetAdmission(cache, tenants_may=settings.tenant_daemon_sets),
        LimitRanger(cache, threads),
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
        CertificateRequests(cache, authorizer, authority, clock),
        Signers(authorizer, clock),
        DeviceTaintTime(clock),
        Escalation(authorizer, threads),
        IdentityProviders(cache, authorizer, threads),
        ServiceRanges(),
        FlowControlBounds(cache),
        ApiServiceClaims(cache, registry),
        AdmissionObjectBounds(cache),
        ConfigurationBounds(cache),
        trust,
        # The tenant's policies and webhooks see the object after the changes of all plugins above.
        MutatingPolicies(cache, kinds, authorizer, threads),
        MutatingWebhooks(cache, kinds, caller, threads),
        ValidatingPolicies(cache, kinds, authorizer, threads),
        ValidatingWebhooks(cache, kinds, caller),
        StillLiving(cache, shared=shared),
        ServiceAllocation(cache, clock, settings.home),
        # Last: the quota is charged in the transaction of the write.
        ResourceQuota(cache, clock, threads),
    )
