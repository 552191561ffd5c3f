"""Backup, restore and clone of one tenant, through the API: whatever the file says, the caller's rights and admission apply.

saving.py ──▶ archive.py (lines, a checksum) ──▶ sealing.py (encryption) ──▶ places.py (a file, or S3)
restoring.py ◀── plan.py (what of an object is restored) ◀── archive.py (verified before anything is changed)
"""
