"""Function libraries, one file each; `kubernetes.py` gathers them."""
