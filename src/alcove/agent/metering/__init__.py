"""What tenants use of this node: read from the kernel's counters, kept on disk, reported to ring0."""
