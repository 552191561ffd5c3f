"""Pods of a node: desired and observed state, the plan derived from both, and the workers that carry it
out."""
