"""Origins: which data set, image and subject each stored answer came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fp2.compose import load_config
from fp2.data.base import Dataset, people_table
from fp2.store.integrity import damaged_rows
from fp2.store.origins import add, create_tables, delete, keys_of, recorded_images, register_origins
from fp2.store.rows import ResponseStore
from fp2.tables import Answer

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


def test_people_can_read_the_store_and_who_is_purged_is_not_in_it(tmp_path: Path) -> None:
    """Also answers that were stored before model and question were recorded, and those about no image."""
    shown, failed, old, blind = (digit * 64 for digit in "abcd")
    columns = "model, probe, question, image, status, answer, error, key"
    asked = [("m", "occupation", "What is this person's job?"), ("m", "trust", "Do you trust this person?")]
    with ResponseStore(tmp_path / "store.sqlite") as store:
        database, run = store.connection, {"device": "cpu"}
        rows = [Answer("1", "q", "A nurse.", None, 0.1, 1), Answer("1", "q", None, "no memory", 0.1, 0)]
        store.put_many(zip((shown, failed), rows, strict=True), run, asked)
        store.put_many([(old, rows[0])], run)
        store.put_many([(blind, rows[0])], run, asked[:1])
        create_tables(database)
        add(database, store.path, ("table", "", "salted", "salted", "/a.png"), [bytes.fromhex(shown)])
        add(database, store.path, ("table", "", "other", "other", "/b.png"), [bytes.fromhex(failed)])
        add(database, store.path, ("table", "", "other", "other", "/b.png"), [bytes.fromhex(shown)])
        readable = sorted(database.execute(f"SELECT {columns} FROM answers_readable"), key=lambda row: row[-1])
        assert readable == [
            (*asked[0], "/a.png", "answered", "A nurse.", None, shown),
            (*asked[1], "/b.png", "error", None, "no memory", failed),
            (None, None, None, None, "answered", "A nurse.", None, old),
            (*asked[0], None, "answered", "A nurse.", None, blind),
        ]
        assert database.execute("SELECT count(*) FROM runtimes").fetchone() == (3,)  # two questions, and none
        chosen = [image for image in recorded_images(database, store.path) if image.path == "/a.png"]
        delete(database, store.path, keys_of(database, store.path, chosen), chosen, {"/a.png"})
        assert {row[3] for row in database.execute("SELECT * FROM answers_readable")} == {"/b.png", None}
        assert (shown,) not in database.execute("SELECT key FROM answers_readable").fetchall()
    assert list(damaged_rows(tmp_path / "store.sqlite")) == []


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
