"""Old backups go, and nothing else."""

from pathlib import Path

from alcove.cli.tenant_backup.pruning import prune


def test_the_last_by_name_stay(tmp_path: Path) -> None:
    for name in ("1.backup", "2.backup", "3.backup", "4.backup", "notes.txt", "0.backup.part"):
        (tmp_path / name).touch()
    (tmp_path / "folder.backup").mkdir()
    assert prune(str(tmp_path / "4.backup"), 2) == [str(tmp_path / "1.backup"), str(tmp_path / "2.backup")]
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {"3.backup", "4.backup", "notes.txt", "0.backup.part", "folder.backup"}
    assert prune(str(tmp_path / "4.backup"), 2) == []
