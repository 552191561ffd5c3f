"""Ingresses: `wanted` reads one, `claims` decides which tenant has which host name. Both are pure."""
