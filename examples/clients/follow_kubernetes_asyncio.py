"""The same with kubernetes_asyncio."""

import asyncio

from kubernetes_asyncio import client, config, watch


async def main() -> None:
    await config.load_kube_config()
    async with client.ApiClient() as api, watch.Watch() as following:
        async for event in following.stream(client.CoreV1Api(api).list_namespaced_pod, "default"):
            print(event["type"], event["object"].metadata.name, event["object"].status.phase, flush=True)


asyncio.run(main())
