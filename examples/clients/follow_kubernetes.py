"""Prints a tenant's pods as they come, change and go, with the official client: `KUBECONFIG=acme.kubeconfig python …`"""

from kubernetes import client, config, watch

config.load_kube_config()
core = client.CoreV1Api()
for event in watch.Watch().stream(core.list_namespaced_pod, "default"):
    print(event["type"], event["object"].metadata.name, event["object"].status.phase, flush=True)
