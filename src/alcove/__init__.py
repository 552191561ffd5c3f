"""Alcove: hard multi-tenancy for Kubernetes."""
