"""Decodes objects in Kubernetes' protobuf encoding, as typed Go clients (kubectl create …) send them. There
is no encoder: such clients accept JSON responses.
"""
