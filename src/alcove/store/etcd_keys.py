"""Objects' keys as paths in etcd: `/registry/{resource}/{tenant}/{namespace}/{name}`."""

from sys import intern

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.store.keys import resource_named, resource_text


class EtcdKeys:
    """Converts keys to paths below one prefix and back. Keys that are not objects are below `~`, after all
    objects."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}/"
        self.objects = (f"{prefix}/".encode(), f"{prefix}/~".encode())
        """The range of all objects."""
        self.everything = (f"{prefix}/".encode(), f"{prefix}0".encode())
        """The range of all keys of the store."""
        self.lasts = (f"{prefix}/~last/".encode(), f"{prefix}/~last0".encode())
        """Last bodies, written together with a delete: etcd's delete event cannot carry them."""
        self.nothing = f"{prefix}/~nothing".encode()
        """Never written: read if only the response's revision matters."""

    def path(self, key: Key) -> bytes:
        """Raises ValueError if the path could be parsed as another key."""
        segments = (key.tenant, key.namespace)
        if any("/" in segment for segment in segments) or "/" in key.resource.resource:
            raise ValueError(f"{key}: resource, tenant and namespace may not contain a slash")
        path = f"{self._prefix}{resource_text(key.resource)}/{key.tenant}/{key.namespace}/{key.name}"
        return path.encode()

    def last(self, position: int) -> bytes:
        """The path of the last body for the operation at `position` of a transaction."""
        return b"%s%d" % (self.lasts[0], position)

    def is_last(self, path: bytes) -> bool:
        return path.startswith(self.lasts[0])

    def key(self, path: bytes) -> Key:
        resource, tenant, namespace, name = path.decode().removeprefix(self._prefix).split("/", 3)
        return Key(resource_named(resource), TenantId(intern(tenant)), intern(namespace), name)

    def narrowed(
        self, resource: GroupResource | None, tenant: TenantId | None, namespace: str | None
    ) -> tuple[bytes, bytes]:
        """The smallest range that contains all such objects."""
        if resource is None:
            return self.objects
        leading = [resource_text(resource)]
        if tenant is not None:
            leading.append(tenant)
            if namespace is not None:
                leading.append(namespace)
        start = f"{self._prefix}{'/'.join(leading)}"
        # "0" is the character after "/".
        return f"{start}/".encode(), f"{start}0".encode()
