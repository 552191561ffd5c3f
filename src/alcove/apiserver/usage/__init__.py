"""Resource usage of pods and nodes: metrics.k8s.io, fetched from the nodes on demand."""
