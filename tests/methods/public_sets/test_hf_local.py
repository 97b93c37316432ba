"""Local Hugging Face data sets, written here with pyarrow as `datasets` 5.2 writes them."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fp2.data.pixels import open_rgb
from fp2.errors import Fp2Error
from fp2.methods.public_sets.hf import load_hf
from fp2.tables import item_name

FEATURES = {
    "image": {"_type": "Image"},
    "gender": {"names": ["woman", "man"], "_type": "ClassLabel"},
    "who": {"dtype": "string", "_type": "Value"},
    "years": {"dtype": "int64", "_type": "Value"},
}
COLUMNS = {"image": "image", "gender": "gender", "subject": "who", "age": "years"}


def encoded(level: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (6, 6), (level, 0, 0)).save(buffer, kind)
    return buffer.getvalue()


def table(levels: list[int], kind: str = "PNG", paths: list[str] | None = None) -> pa.Table:
    pictures = [{"bytes": encoded(level, kind), "path": None} for level in levels]
    if paths:
        pictures = [{"bytes": None, "path": path} for path in paths]
    n = len(levels)
    columns = {
        "image": pa.array(pictures, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "gender": pa.array([place % 2 for place in range(n)], pa.int64()),
        "who": [f"p{place // 2}" for place in range(n)],
        "years": pa.array([20 + 10 * place for place in range(n)], pa.int64()),
    }
    note = json.dumps({"info": {"features": FEATURES}})
    return pa.table(columns).replace_schema_metadata({"huggingface": note})


def save(folder: Path, content: pa.Table) -> Path:
    folder.mkdir(parents=True)
    name = "data-00000-of-00001.arrow"
    with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, content.schema) as writer:
        writer.write_table(content, max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def reds(people) -> list[int]:
    return [open_rgb(Path(path)).getpixel((0, 0))[0] for path in people["image_path"]]


def test_what_save_to_disk_writes(tmp_path):
    root = save(tmp_path / "faces", table([10, 20, 30, 40]))
    told = []
    dataset = load_hf(root, COLUMNS, tmp_path / "cache", tick=lambda done, n: told.append((done, n)))
    people = dataset.people
    assert dataset.name == "faces"
    assert reds(people) == [10, 20, 30, 40]
    assert people["subject_id"].tolist() == ["p0", "p0", "p1", "p1"]
    assert people["attr_gender"].tolist() == [["woman"], ["man"], ["woman"], ["man"]]
    assert people["attr_age"].tolist() == [["18-29"], ["30-39"], ["40-49"], ["50-59"]]
    assert people["attr_split"].tolist() == [["all"]] * 4
    assert people["image_id"].tolist()[0] == "all/data-00000-of-00001/000000.png"
    assert told[-1] == (4, 4)


def test_the_bytes_are_written_once_and_as_they_are(tmp_path):
    root, told = save(tmp_path / "faces", table([10, 20], "JPEG")), []
    first = load_hf(root, COLUMNS, tmp_path / "cache").people
    again = load_hf(root, COLUMNS, tmp_path / "cache", tick=lambda done, n: told.append(done)).people
    assert told == []
    assert again["image_path"].tolist() == first["image_path"].tolist()
    assert Path(first["image_path"][0]).read_bytes() == encoded(10, "JPEG")
    assert first["image_path"][0].endswith(".jpg")


def test_several_splits_and_one_of_them(tmp_path):
    root = tmp_path / "faces"
    save(root / "train", table([10, 20, 30]))
    save(root / "test", table([40]))
    (root / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    people = load_hf(root, COLUMNS, tmp_path / "cache").people
    assert people["attr_split"].map(lambda cell: cell[0]).tolist() == ["train"] * 3 + ["test"]
    assert reds(load_hf(root, COLUMNS, tmp_path / "cache", split="test").people) == [40]
    with pytest.raises(Fp2Error, match=r"no split 'tset'.*Did you mean 'test'"):
        load_hf(root, COLUMNS, tmp_path / "cache", split="tset")


def test_parquet_of_the_hub(tmp_path):
    folder = tmp_path / "faces" / "data"
    folder.mkdir(parents=True)
    for place, levels in enumerate([[10, 20], [30]]):
        pq.write_table(table(levels), folder / f"train-0000{place}-of-00002.parquet")
    pq.write_table(table([50]), folder / "validation-00000-of-00001.parquet")
    people = load_hf(tmp_path / "faces", {"image": "image", "gender": "gender"}, tmp_path / "cache").people
    assert reds(people) == [10, 20, 30, 50]
    assert people["attr_split"].map(lambda cell: cell[0]).tolist() == ["train"] * 3 + ["validation"]


def test_images_beside_the_files(tmp_path):
    root = save(tmp_path / "faces", table([1, 2], paths=["a.png", "pics/b.png"]))
    (root / "pics").mkdir()
    (root / "a.png").write_bytes(encoded(70))
    (root / "pics/b.png").write_bytes(encoded(80))
    people = load_hf(root, COLUMNS, tmp_path / "cache").people
    assert reds(people) == [70, 80]
    assert people["image_id"].tolist() == ["a.png", "pics/b.png"]
    assert not (tmp_path / "cache").exists()


def test_mistakes_are_one_line(tmp_path):
    root = save(tmp_path / "faces", table([1, 2]))
    with pytest.raises(Fp2Error, match="no column 'gendre'"):
        load_hf(root, {**COLUMNS, "gender": "gendre"}, tmp_path / "cache")
    with pytest.raises(Fp2Error, match="no column 'picture'"):
        load_hf(root, {"image": "picture"}, tmp_path / "cache")
    (root / "data-00000-of-00001.arrow").write_bytes(b"broken")
    with pytest.raises(Fp2Error, match="cannot be read") as caught:
        load_hf(root, COLUMNS, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    with pytest.raises(Fp2Error, match="no Hugging Face data set"):
        load_hf(tmp_path / "nothing", COLUMNS, tmp_path / "cache")


def test_a_wrong_item_is_named_with_its_row_and_file(tmp_path):
    (tmp_path / "data").mkdir()
    for number, names in enumerate((["a", "b", "c"], ["d", "", "f"])):
        content = table([1, 2, 3]).append_column("text", [names]).append_column("id", [[f"{number}{n}" for n in "abc"]])
        pq.write_table(content, tmp_path / "data" / f"train-0000{number}-of-00002.parquet")
    columns = {**COLUMNS, "item": "id", "field_text": "text"}
    with pytest.raises(
        Fp2Error, match=r"column 'text' is empty in row 2 of train-00001-of-00002.parquet \(item '1b'\)"
    ):
        load_hf(tmp_path, columns, tmp_path / "cache")
    people = load_hf(tmp_path, {**columns, "field_text": "id"}, tmp_path / "cache").people
    assert item_name(people, 4) == "item '1b' (row 2 of train-00001-of-00002.parquet)"
