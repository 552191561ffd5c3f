"""The same with pykube-ng."""

import pykube

api = pykube.HTTPClient(pykube.KubeConfig.from_env())
for event in pykube.Pod.objects(api).filter(namespace="default").watch():
    print(event.type, event.object.name, event.object.obj["status"]["phase"], flush=True)
