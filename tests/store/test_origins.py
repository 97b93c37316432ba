"""Origins: which data set, image and subject each stored answer came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fp2.compose import load_config
from fp2.data.base import Dataset, people_table
from fp2.store.origins import keys_of, recorded_images, register_origins
from fp2.store.rows import ResponseStore

KEY = "ab" * 32


def test_origins_are_recorded_under_the_kind_or_the_import_path_of_the_data_set(tmp_path: Path) -> None:
    people = people_table(
        {
            "image_id": ["one", "two"],
            "subject_id": ["a", "b"],
            "image_path": [str(tmp_path / "1.png"), str(tmp_path / "2.png")],
            "is_primary": [True, True],
            "n_people": [1, 1],
            "attr_group": [["x"], ["y"]],
        }
    )
    config = load_config([f"paths.root={tmp_path}"])
    by_path = replace(config, data=replace(config.data, kind=None, target="my_package.faces:Faces"))
    with ResponseStore(Path(config.paths.store)) as store:
        for used in (config, by_path):
            register_origins(used, Dataset("faces", None, people), {"one": [KEY]}, store)
        found = recorded_images(store.connection, store.path)
        assert [image.data for image in found] == ["peeps", "my_package.faces:Faces"]
        assert {image.path for image in found} == {str(tmp_path / "1.png")}
        assert keys_of(store.connection, store.path, found[1:]) == {KEY}
        assert "one" not in {image.image for image in found}
