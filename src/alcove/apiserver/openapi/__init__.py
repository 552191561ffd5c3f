"""OpenAPI v2 and v3 documents of a tenant's kinds, for `kubectl explain`, validation and generated
clients."""
