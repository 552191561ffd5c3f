"""Running containers: one small interface, the runtimes behind it, and what they are told to run.

pod ──▶ config (pure: what to run) ──▶ Runtime ──▶ conmon ──▶ crun, runc, runsc
                                          └──────▶ nothing (hollow)
"""
