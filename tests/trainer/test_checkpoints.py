"""A checkpoint counts only if it's complete."""

from pathlib import Path

from trainer.checkpoints import is_complete, made_by, mark_complete, newest_complete, remove_old


def checkpoint(folder: Path, step: int, *, complete: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    (path / "part").mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"x" * 100)
    (path / "part" / "optimizer.pt").write_bytes(b"y" * 10)
    if complete:
        mark_complete(path, config_hash="abc")
    return path


def test_the_newest_whole_checkpoint_is_found_by_number_and_not_by_name(tmp_path: Path):
    assert newest_complete(tmp_path / "checkpoints") is None
    checkpoint(tmp_path, 90)
    whole = checkpoint(tmp_path, 100)
    checkpoint(tmp_path, 110, complete=False)
    (tmp_path / "checkpoint-tmp").mkdir()
    assert newest_complete(tmp_path) == whole
    assert made_by(whole) == "abc"


def test_a_file_that_is_missing_or_cut_off_makes_it_partial(tmp_path: Path):
    cut, missing = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    (cut / "model.safetensors").write_bytes(b"x" * 99)
    (missing / "part" / "optimizer.pt").unlink()
    assert not is_complete(cut)
    assert not is_complete(missing)
    assert newest_complete(tmp_path) is None


def test_a_marker_that_was_cut_off_does_not_count(tmp_path: Path):
    path = checkpoint(tmp_path, 1)
    (path / "complete.json").write_text('{"sizes": {')
    assert not is_complete(path)


def test_old_and_partial_ones_are_removed(tmp_path: Path):
    for step in (10, 20, 30):
        checkpoint(tmp_path, step)
    checkpoint(tmp_path, 5, complete=False)
    remove_old(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-20", "checkpoint-30"]
