"""Objects' keys as paths in etcd: `/registry/{resource}/{tenant}/{namespace}/{name}`."""

from sys import intern

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.store.keys import resource_named, resource_text


class EtcdKeys:
    """Paths below one prefix, and back. What is ours but no object sorts after every object, at `~`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}/"
        self.objects = (f"{prefix}/".encode(), f"{prefix}/~".encode())
        """The range of all objects."""
        self.everything = (f"{prefix}/".encode(), f"{prefix}0".encode())
        """The range of all that is ours."""
        self.lasts = (f"{prefix}/~last/".encode(), f"{prefix}/~last0".encode())
        """Written with a delete that says the object's last body, since etcd's event has no room for it."""
        self.nothing = f"{prefix}/~nothing".encode()
        """Never written: asked for where only the answer's revision matters."""

    def path(self, key: Key) -> bytes:
        """Raises ValueError where the path could be read back as another key."""
        places = (key.tenant, key.namespace)
        if any("/" in place for place in places) or "/" in key.resource.resource:
            raise ValueError(f"{key} has a slash where there may be none")
        path = f"{self._prefix}{resource_text(key.resource)}/{key.tenant}/{key.namespace}/{key.name}"
        return path.encode()

    def last(self, place: int) -> bytes:
        """For the operation at `place` of a transaction."""
        return b"%s%d" % (self.lasts[0], place)

    def is_last(self, path: bytes) -> bool:
        return path.startswith(self.lasts[0])

    def key(self, path: bytes) -> Key:
        resource, tenant, namespace, name = path.decode().removeprefix(self._prefix).split("/", 3)
        return Key(resource_named(resource), TenantId(intern(tenant)), intern(namespace), name)

    def narrowed(
        self, resource: GroupResource | None, tenant: TenantId | None, namespace: str | None
    ) -> tuple[bytes, bytes]:
        """The least range that holds all such objects."""
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
