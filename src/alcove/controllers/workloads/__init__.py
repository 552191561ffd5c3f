"""Shared by workload controllers: pod state, adoption by selector, revisions, and creation in batches."""
