"""Deployments: one replica set per revision of the pod template, with rollouts between them."""

from alcove.controllers.deployments.controller import DeploymentController

__all__ = ["DeploymentController"]
