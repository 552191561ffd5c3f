"""Container runtimes: one small interface, its implementations, and the OCI configurations that they run.

pod ──▶ config (pure) ──▶ ContainerRuntime ──▶ OciRuntime ──▶ conmon ──▶ crun, runc, runsc
                                 └───────────▶ HollowRuntime (no processes)
"""
