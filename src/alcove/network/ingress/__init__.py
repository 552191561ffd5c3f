"""Ingresses: `ingress_spec` parses one, `domains` decides which tenant owns which host name. Both are
pure."""
