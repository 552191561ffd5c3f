"""Deployments: replica sets that follow each other, one per revision of the template."""

from alcove.controllers.deployments.controller import Deployments

__all__ = ["Deployments"]
