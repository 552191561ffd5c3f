"""The same with kr8s."""

import kr8s

for kind, pod in kr8s.watch("pods", namespace="default"):
    print(kind, pod.name, pod.status.phase, flush=True)
