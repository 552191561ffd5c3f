"""Bounds of captures, shared by clients, the API server and agents. Imports nothing: `alcove --help` shows them."""

SECONDS_DEFAULT, SECONDS_MAX = 60, 600
BYTES_DEFAULT, BYTES_MAX = 16 << 20, 256 << 20
PACKET_BYTES_DEFAULT, PACKET_BYTES_MAX = 65_535, 262_144
