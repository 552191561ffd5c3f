"""Deployments: replica sets that follow each other, one per revision of the template."""

from alcove.controllers.deployments.controller import DeploymentController

__all__ = ["DeploymentController"]
