"""An etcd that is full (NOSPACE): writes fail and say why, reads go on, and after its alarm is disarmed all is as before."""

from pathlib import Path

import pytest

from alcove.testing.etcd import EtcdCluster, lacking
from alcove.testing.server import LocalServer

MAPS = "/api/v1/namespaces/default/configmaps"
QUOTA_BYTES = 16 << 20
WRITES_MAX = 200
LARGE = "x" * 500_000


@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_writes_to_a_full_etcd_fail_with_the_reason_until_its_alarm_is_disarmed(tmp_path: Path) -> None:
    quota = f"--quota-backend-bytes={QUOTA_BYTES}"
    with (
        EtcdCluster(tmp_path / "etcd", 1, quota) as etcd,
        LocalServer(tmp_path / "server", *etcd.options()) as server,
    ):
        ring0, member = server.system, etcd.members[0]
        assert ring0.post(MAPS, {"metadata": {"name": "large"}}).status == 201
        for number in range(WRITES_MAX):
            answer = ring0.patch(f"{MAPS}/large", {"data": {"number": str(number), "text": LARGE}})
            if answer.status != 200:
                break
        assert answer.status == 504 and [each["alarm"] for each in member.alarms()] == ["NOSPACE"]
        assert "database space exceeded" in answer.json["message"]
        assert "disarm its alarm" in answer.json["message"]
        small = {"metadata": {"name": "small"}}
        refused = ring0.post(MAPS, small)
        assert refused.status == 504 and "read the object before retrying" in refused.json["message"]
        # Reads are served, and the server does not exit. The write that filled etcd was done, though it failed.
        stored = ring0.get(f"{MAPS}/large").json["data"]["number"]
        assert stored in (str(number - 1), str(number))
        listed = ring0.get(MAPS).json
        assert [each["metadata"]["name"] for each in listed["items"]] == ["large"]
        member.compact(int(listed["metadata"]["resourceVersion"]))
        member.defragment()
        member.disarm()
        assert ring0.post(MAPS, small).status == 201
        assert ring0.get(f"{MAPS}/large").json["data"]["number"] == stored
        server.kill()
        server.start()
        assert ring0.get(f"{MAPS}/large").json["data"]["number"] == stored
