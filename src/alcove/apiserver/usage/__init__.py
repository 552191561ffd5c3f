"""What pods and nodes use: metrics.k8s.io, asked of the nodes when somebody asks here."""
