"""The server side of SPDY/3.1, limited to what Kubernetes clients use."""
