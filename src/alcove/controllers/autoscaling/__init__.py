"""Horizontal pod autoscaling by the use of CPU and memory."""

from alcove.controllers.autoscaling.controller import HorizontalPodAutoscalers

__all__ = ["HorizontalPodAutoscalers"]
