"""Admission: the plugins that every write passes between decoding and the store. The list is in
`order.py`."""
