"""Ingresses: `ingress_spec` parses one, `claims` decides which tenant holds which host name. Both are
pure."""
