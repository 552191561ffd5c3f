"""Function libraries, one per file; `kubernetes.py` combines them."""
