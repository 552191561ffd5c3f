"""Alcove: hard multi-tenancy for Kubernetes."""

__version__ = "0.1.0"
"""The only place of the version: packaging reads it from here."""
