"""Horizontal pod autoscaling by the use of CPU and memory, and by custom and external metrics."""

from alcove.controllers.autoscaling.controller import HorizontalPodAutoscalerController

__all__ = ["HorizontalPodAutoscalerController"]
