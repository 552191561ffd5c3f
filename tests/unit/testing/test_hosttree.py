"""Changed files are noticed, pods' own are not counted."""

from __future__ import annotations

from pathlib import Path

from alcove.testing.hosttree import HostTree, own_names, signatures

UID = "0194eecf-6ea9-4c7e-929d-10f5376a3403"


def tree(root: Path, cluster: Path) -> HostTree:
    return HostTree(dict(signatures(str(root))), frozenset(own_names(cluster)))


def test_files_that_are_made_changed_or_removed_are_noticed(tmp_path: Path) -> None:
    for name in ("changed", "removed", "same"):
        (tmp_path / name).write_text("before")
    before = tree(tmp_path, tmp_path / "none")
    (tmp_path / "changed").write_text("later")
    (tmp_path / "removed").unlink()
    (tmp_path / "made").symlink_to("/etc")
    expected = [f"+ {tmp_path}/made", f"- {tmp_path}/removed", f"~ {tmp_path}/changed"]
    assert before.changes(tree(tmp_path, tmp_path / "none")) == expected


def test_a_file_in_a_nodes_directory_counts_unless_it_is_in_a_pods_folder(tmp_path: Path) -> None:
    for folder in (
        f"n1/volumes/pods/{'a' * 32}/empty/v",
        f"n1/logs/{UID}/main",
        f"n1/snapshots/{UID}.main.0/upper",
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "own").touch()
    known = tree(tmp_path / "none", tmp_path)
    (tmp_path / "n1/volumes/stray").touch()
    assert known.changes(tree(tmp_path / "none", tmp_path)) == [f"+ {tmp_path}/n1/volumes/stray"]
    assert not any("own" in each for each in known.names)
