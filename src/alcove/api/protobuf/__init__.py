"""Objects in Kubernetes' protobuf form, as typed Go clients (kubectl create …) send them. Decoding only:
such clients take JSON back.
"""
