"""Origins: which data set, image and subject each stored answer came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fp2.compose import load_config
from fp2.data.base import Dataset, people_table
from fp2.store.origins import delete, keys_of, recorded_images, register_origins
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


def test_a_purge_deletes_the_rows_of_an_image_from_every_table_with_a_path(tmp_path: Path) -> None:
    """Also from tables of packages that this one does not know; other images, and other columns, stay."""
    with ResponseStore(tmp_path / "store.sqlite") as store:
        database = store.connection
        database.execute('CREATE TABLE "my faces" (number REAL, path TEXT)')
        database.execute("CREATE TABLE notes (text TEXT)")
        database.executemany('INSERT INTO "my faces" VALUES (?, ?)', [(1, "/a.png"), (2, "/b.png"), (3, "/a.png")])
        database.execute("INSERT INTO notes VALUES ('/a.png')")
        database.commit()
        assert delete(database, store.path, (), (), {"/a.png"})["my faces"] == 2
        assert database.execute('SELECT number FROM "my faces"').fetchall() == [(2.0,)]
        assert database.execute("SELECT count(*) FROM notes").fetchone() == (1,)
