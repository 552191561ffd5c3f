"""Probes: whether containers have started, live and are ready."""
