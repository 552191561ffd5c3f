"""The file of a projected trust bundle: the certificates of one ClusterTrustBundle, or of all that a selector names."""

from collections.abc import Iterable

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.volumes import files
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.files import Files
from alcove.api import objects, selectors
from alcove.api.kinds.certificates.pem import blocks
from alcove.api.objects import Object

BUNDLES_MAX = 256
FILE_BYTES_MAX = 1 << 20


async def projected(lookup: ObjectLookup, key: PodKey, source: Object, mode: int) -> Files:
    """`source` is a ClusterTrustBundleProjection. Raises VolumeFailure."""
    name, signer = source.get("name") or "", source.get("signerName") or ""
    names = [name] if name else await _selected(lookup, key, signer, source.get("labelSelector"))
    found = [bundle for each in names if (bundle := await lookup.trust_bundle(key, each)) is not None]
    if not found and not source.get("optional"):
        wanted = f'"{name}"' if name else f'of signer "{signer}" with the labels'
        raise VolumeFailure(f"clustertrustbundle {wanted} not found")
    texts: list[str] = [objects.get(bundle, "spec", "trustBundle", default="") for bundle in found]
    return files.file(source.get("path") or "", merged(texts), mode)


async def _selected(lookup: ObjectLookup, key: PodKey, signer: str, selector: Object | None) -> list[str]:
    """The names of the signer's bundles that the selector matches. Without one it matches none; an empty one matches
    all."""
    if selector is None:
        return []
    matches = selectors.from_object(selector).matches
    bundles = await lookup.trust_bundles_of(key, signer, BUNDLES_MAX + 1)
    if len(bundles) > BUNDLES_MAX:
        raise VolumeFailure(f'signer "{signer}" has more than {BUNDLES_MAX} clustertrustbundles')
    return sorted(objects.name(each) for each in bundles if matches(objects.labels(each)))


def merged(texts: Iterable[str]) -> bytes:
    """All certificates, each once. Raises VolumeFailure if they are too many."""
    certificates: dict[bytes, bytes] = {}
    size = 0
    for text in texts:
        for block in blocks(text.encode()):
            size += len(block.text)
            if size > FILE_BYTES_MAX:
                raise VolumeFailure(f"the clustertrustbundles have more than {FILE_BYTES_MAX} bytes")
            certificates.setdefault(b"".join(block.body.split()), block.text)
    return b"".join(certificates.values())
