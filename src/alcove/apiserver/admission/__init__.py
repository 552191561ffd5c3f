"""Admission: what a write must pass between its decoding and the store. The list is in `order.py`."""
