"""Horizontal pod autoscaling by the use of CPU and memory."""

from alcove.controllers.autoscaling.controller import HorizontalPodAutoscalerController

__all__ = ["HorizontalPodAutoscalerController"]
