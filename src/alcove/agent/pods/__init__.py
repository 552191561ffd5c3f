"""Pods of a node: what is wanted of each, what is seen of it, what to do next, and who does it."""
