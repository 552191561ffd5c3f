"""The list of all controllers. Adding one is its file and a line here."""

from __future__ import annotations

from alcove.controllers.apiservices import ApiServiceAvailability
from alcove.controllers.autoscaling import HorizontalPodAutoscalerController
from alcove.controllers.backups import BackupController
from alcove.controllers.certificates import CertificateApproval, CertificateCleaning, PodCertificateCleaning
from alcove.controllers.clusterroles import ClusterRoleAggregation
from alcove.controllers.controller import Controller
from alcove.controllers.cronjobs import CronJobController
from alcove.controllers.daemonsets import DaemonSetController
from alcove.controllers.deployments import DeploymentController
from alcove.controllers.disruption import DisruptionController
from alcove.controllers.endpoints import EndpointsController, EndpointSliceMirroring, EndpointSlices
from alcove.controllers.flowschemas import FlowSchemaController
from alcove.controllers.garbage import GarbageCollector
from alcove.controllers.garbage.aggregated import AggregatedGarbage
from alcove.controllers.ingress import IngressController
from alcove.controllers.jobs import JobController, OrphanedJobPods
from alcove.controllers.namespaces import NamespaceController
from alcove.controllers.network.api_endpoints import ApiEndpointsController
from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.gateways import GatewayController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import PodNetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.network.service_cidrs import ServiceCidrController
from alcove.controllers.nodes import NodeLifecycle, TaintEviction, UnreadyPods
from alcove.controllers.planes import PlaneController, SharedDefinitions
from alcove.controllers.podgc import PodGarbageCollector
from alcove.controllers.replicasets import ReplicaSetController, ReplicationControllerController
from alcove.controllers.resourcequotas import ResourceQuotaController
from alcove.controllers.rootca import RootCaController
from alcove.controllers.serviceaccounts import ServiceAccountController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.controllers.services.balancers import LoadBalancerController
from alcove.controllers.services.nodeports import NodePortController
from alcove.controllers.sleep import SleepController, SleepingPods
from alcove.controllers.statefulsets import StatefulSetController
from alcove.controllers.storageversions import StorageVersionMigrator
from alcove.controllers.tenants import TenantController
from alcove.controllers.tokensecrets import TokenSecretController
from alcove.controllers.ttl import TtlAfterFinished
from alcove.controllers.usage import UsageController
from alcove.controllers.volumes import (
    ClaimBinder,
    ClaimProtection,
    EphemeralClaims,
    LocalProvisioner,
    VolumeController,
    VolumeProtection,
)

CONTROLLERS: tuple[type[Controller], ...] = (
    TenantController,
    BackupController,
    SleepController,
    SleepingPods,
    PlaneController,
    SharedDefinitions,
    NamespaceController,
    ServiceAccountController,
    RootCaController,
    TokenSecretController,
    ClusterRoleAggregation,
    FlowSchemaController,
    ResourceQuotaController,
    StorageVersionMigrator,
    ApiServiceAvailability,
    CertificateApproval,
    CertificateCleaning,
    PodCertificateCleaning,
    GarbageCollector,
    AggregatedGarbage,
    PodGarbageCollector,
    NodeLifecycle,
    TaintEviction,
    UnreadyPods,
    TtlAfterFinished,
    ReplicaSetController,
    ReplicationControllerController,
    DeploymentController,
    JobController,
    OrphanedJobPods,
    CronJobController,
    StatefulSetController,
    DaemonSetController,
    DisruptionController,
    HorizontalPodAutoscalerController,
    ClaimBinder,
    VolumeController,
    LocalProvisioner,
    ClaimProtection,
    VolumeProtection,
    EphemeralClaims,
    EndpointSlices,
    EndpointsController,
    EndpointSliceMirroring,
    VpcController,
    SubnetController,
    EndpointController,
    DropletController,
    NetworkController,
    ApiEndpointsController,
    ServiceCidrController,
    PodNetworkController,
    OrphanController,
    ServiceAddressController,
    NodePortController,
    LoadBalancerController,
    GatewayController,
    IngressController,
    UsageController,
)
