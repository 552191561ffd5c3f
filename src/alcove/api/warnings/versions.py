"""Deprecated kinds: the warning is sent with every response (`Kind.warning`)."""

DEPRECATED = {
    ("", "v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "Endpoints"): ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
}
"""By group, version and kind."""
