"""What happens in tenants' networks: sight.alcove.io, fetched from the nodes on demand."""
