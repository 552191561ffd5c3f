"""Test tools for this project and its users: a local API server, virtual time, nodes in network
namespaces."""
