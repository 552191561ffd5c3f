"""OpenAPI v2 and v3 of what a tenant is served: `kubectl explain`, validation, generated clients."""
