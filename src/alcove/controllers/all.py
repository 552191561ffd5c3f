"""The list of all controllers. Adding one is its file and a line here."""

from __future__ import annotations

from alcove.controllers.autoscaling import HorizontalPodAutoscalers
from alcove.controllers.certificates import CertificateApproval, CertificateCleaning
from alcove.controllers.clusterroles import ClusterRoleAggregation
from alcove.controllers.controller import Controller
from alcove.controllers.cronjobs import CronJobs
from alcove.controllers.daemonsets import DaemonSets
from alcove.controllers.deployments import Deployments
from alcove.controllers.disruption import Disruption
from alcove.controllers.endpoints import Endpoints, EndpointSliceMirroring, EndpointSlices
from alcove.controllers.garbage import GarbageCollector
from alcove.controllers.ingress import Ingresses
from alcove.controllers.jobs import Jobs, OrphanedJobPods
from alcove.controllers.namespaces import Namespaces
from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.gateways import GatewayController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import PodController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.nodes import NodeLifecycle, TaintEviction, UnreadyPods
from alcove.controllers.podgc import PodGarbage
from alcove.controllers.replicasets import ReplicaSets, ReplicationControllers
from alcove.controllers.rootca import RootCa
from alcove.controllers.serviceaccounts import ServiceAccounts
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.controllers.services.balancers import BalancerController
from alcove.controllers.services.nodeports import NodePortController
from alcove.controllers.statefulsets import StatefulSets
from alcove.controllers.tenants import Tenants
from alcove.controllers.tokensecrets import TokenSecrets
from alcove.controllers.ttl import TtlAfterFinished
from alcove.controllers.volumes import (
    ClaimBinder,
    ClaimProtection,
    EphemeralClaims,
    LocalProvisioner,
    VolumeKeeper,
    VolumeProtection,
)

CONTROLLERS: tuple[type[Controller], ...] = (
    Tenants,
    Namespaces,
    ServiceAccounts,
    RootCa,
    TokenSecrets,
    ClusterRoleAggregation,
    CertificateApproval,
    CertificateCleaning,
    GarbageCollector,
    PodGarbage,
    NodeLifecycle,
    TaintEviction,
    UnreadyPods,
    TtlAfterFinished,
    ReplicaSets,
    ReplicationControllers,
    Deployments,
    Jobs,
    OrphanedJobPods,
    CronJobs,
    StatefulSets,
    DaemonSets,
    Disruption,
    HorizontalPodAutoscalers,
    ClaimBinder,
    VolumeKeeper,
    LocalProvisioner,
    ClaimProtection,
    VolumeProtection,
    EphemeralClaims,
    EndpointSlices,
    Endpoints,
    EndpointSliceMirroring,
    VpcController,
    SubnetController,
    EndpointController,
    DropletController,
    NetworkController,
    PodController,
    OrphanController,
    ServiceAddressController,
    NodePortController,
    BalancerController,
    GatewayController,
    Ingresses,
)
