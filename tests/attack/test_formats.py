"""Damaged, forged and oversized files of maps, models and unfinished fits."""

import base64
import gzip
import io
import json
import struct
import zipfile
import zlib

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd
from attack.damage import WAYS, answer_or_error, lose
from braindive.io.models import read_checkpoint, write_checkpoint

GIFTI = """<?xml version="1.0" encoding="UTF-8"?>
<GIFTI Version="1.0" NumberOfDataArrays="1"><MetaData/><LabelTable/>
<DataArray Intent="NIFTI_INTENT_SHAPE" DataType="NIFTI_TYPE_FLOAT32"
 ArrayIndexingOrder="RowMajorOrder" Dimensionality="1" Dim0="{n}" Encoding="{encoding}"
 Endian="LittleEndian" ExternalFileName="{external}" ExternalFileOffset="0">
<MetaData/><Data>{data}</Data></DataArray></GIFTI>
"""


def one_scan(folder, name):
    """A table of one scan that is read from a file."""
    table = folder / "cohort.tsv"
    pd.DataFrame({"participant_id": ["a"], "age": [60], "path": [name]}).to_csv(
        table, sep="\t", index=False
    )
    return table


@pytest.fixture(scope="module")
def model(people):
    return bd.DIVE(2, n_init=1, random_state=0).fit(people)


@pytest.fixture(scope="module")
def files(tmp_path_factory, people, line, model):
    """One whole file of each kind that a study keeps, and how to read it."""
    folder = tmp_path_factory.mktemp("whole")
    single = people.select(visits=[0])
    box = bd.Volume("box", np.ones((3, 2, 2), dtype=bool), np.eye(4))
    volume = bd.Cohort(single.values, subjects=["a"], times=[1.0], space=box)
    found = {}
    for kind, cohort in (("mgh", single), ("gifti", single), ("nifti", volume)):
        table = bd.write_cohort(cohort, folder / kind, kind)
        found[kind] = folder / kind / pd.read_csv(table, sep="\t")["path"][0]
    found["mgz"] = folder / "scan.mgz"
    found["mgz"].write_bytes(gzip.compress(found["mgh"].read_bytes(), mtime=0))
    found["nii"] = folder / "scan.nii"
    found["nii"].write_bytes(gzip.decompress(found["nifti"].read_bytes()))
    found["table"] = bd.write_cohort(people, folder / "table", "table")
    found["model"] = folder / "fit.dive"
    model.save(found["model"])
    found["checkpoint"] = folder / "fit.checkpoint"
    kept = []
    bd.DIVE(2, n_init=1, people="alike", personal=False, random_state=0).fit(
        people, callback=lambda progress: kept.append(progress.checkpoint)
    )
    write_checkpoint(found["checkpoint"], "mark", kept[-1])
    return found


def read(kind, path, people):
    """Everything that a file says, as text."""
    if kind == "model":
        model = bd.load_model(path)
        return repr((model.stage(people).to_dict(), model.predict(people).tolist()))
    if kind == "checkpoint":
        mark, starts = read_checkpoint(path)
        return repr((mark, [(trace.objectives, trace.state.responsibilities) for trace in starts]))
    if kind == "table":
        cohort = bd.read_cohort(path, people.space)
    else:
        cohort = bd.read_cohort(one_scan(path.parent, path.name))
    return repr((cohort.subjects.tolist(), cohort.times.tolist(), cohort.values.tolist()))


# Only these have checksums of their own; what is flipped in the numbers of others is other numbers.
GUARDED = ("model", "checkpoint", "mgz", "nifti")


@pytest.mark.parametrize(
    "kind", ["mgh", "mgz", "gifti", "nifti", "nii", "table", "model", "checkpoint"]
)
def test_damage_to_a_file_is_told_or_leaves_numbers(kind, files, people, tmp_path, tries, tally):
    whole = files[kind]
    truth = read(kind, whole, people)
    for number in tries(10):
        rng = np.random.default_rng([5, number])
        path = tmp_path / whole.name
        path.write_bytes(whole.read_bytes())
        way = [way for way in WAYS if way is not lose][number % (len(WAYS) - 1)]
        way(path, rng)
        try:
            found = read(kind, path, people)
        except bd.BraindiveError:
            tally.add("refused")
            continue
        if kind in GUARDED:
            assert found == truth, (way.__name__, number)
        tally.add("read as it was" if found == truth else "read as other numbers")


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_parts(path, parts):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def spoil_array(data, rng):
    """Other numbers, or another shape, in a file of one array."""
    array = np.load(io.BytesIO(data)).copy()
    odd = [np.nan, np.inf, -1e300, -1.0, 1e9, 0.5][rng.integers(6)]
    ways = [
        lambda: array[..., :-1],
        lambda: array.T if array.ndim > 1 else array[None],
        lambda: np.concatenate([array, array]),
        lambda: array.astype("i4") if array.dtype.kind == "f" else array.astype("f8"),
        lambda: np.zeros((0,) * array.ndim, array.dtype),
        lambda: array[::-1] * np.array(-1, array.dtype) if array.dtype.kind == "f" else ~array,
    ]
    if array.size and array.dtype.kind == "f" and rng.random() < 0.6:
        array.flat[rng.integers(array.size)] = odd
    elif array.size:
        array = ways[rng.integers(len(ways))]()
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0))
    return buffer.getvalue()


def spoil_header(text, rng):
    """Another number, word or part somewhere in the facts of a file."""
    header = json.loads(text)
    places = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(header["content"])
    node, key = places[rng.integers(len(places))]
    odd = [None, -1, 10**9, float("nan"), "x", [], {}, {"array": 0}, 0.5, True, {"dict": []}]
    node[key] = odd[rng.integers(len(odd))]
    return json.dumps(header).encode()


def test_forged_model_is_refused_or_gives_numbers(files, people, tmp_path, tries, tally):
    """Even what has the right sums for the zip: never a NaN, never an error of others."""
    whole = parts_of(files["model"])
    path = tmp_path / "forged.dive"
    arrays = [name for name in whole if name.endswith(".npy")]
    truth = read("model", files["model"], people)
    for number in tries(40):
        rng = np.random.default_rng([6, number])
        forged = dict(whole)
        if number % 3:
            name = arrays[rng.integers(len(arrays))]
            forged[name] = spoil_array(whole[name], rng)
        else:
            forged["header.json"] = spoil_header(whole["header.json"], rng)
        write_parts(path, forged)

        def ask():
            model = bd.load_model(path)
            stages = model.stage(people)
            predicted = model.predict(people)
            assert np.isfinite(stages[["score", "speed", "shift"]].to_numpy()).all()
            assert np.isfinite(predicted).all()
            model.summary()
            return repr((stages.to_dict(), predicted.tolist()))

        found = answer_or_error(ask)
        if isinstance(found, bd.BraindiveError):
            tally.add("refused in a sentence")
        else:
            tally.add("the same answers" if found == truth else "other finite answers")


@pytest.mark.parametrize(
    ("part", "spoil"),
    [
        ("_placing", lambda part: part.covariance.within.fill(np.nan)),
        ("_placing", lambda part: part.population.shift_sds.fill(-1.0)),
        ("_placing", lambda part: part.known_scores.fill(np.inf)),
        ("_placing", lambda part: part.curve_uncertainty.covariance.fill(np.nan)),
        ("_personal", lambda part: part.means.fill(np.nan)),
        ("_personal", lambda part: part.components.fill(np.inf)),
        ("_personal", lambda part: part.vertex_kernel.noise.fill(-1.0)),
        ("_internal", lambda part: part["training"].sums.fill(np.nan)),
        ("_internal", lambda part: part["parameters"].noise.fill(np.nan)),
        ("noise_", lambda part: part.fill(7.0)),
        ("labels_", lambda part: part.fill(1)),
        ("scores_", lambda part: part.__iadd__(1.0)),
    ],
)
def test_every_part_of_a_model_is_checked_on_loading(files, tmp_path, part, spoil):
    from braindive.io.models import read_model, write_model

    parameters, fitted = read_model(files["model"])
    spoil(fitted[part])
    path = tmp_path / "fit.dive"
    write_model(path, parameters, fitted)
    with pytest.raises(bd.ModelFileError, match="does not hold a usable model"):
        bd.load_model(path)


def test_number_of_arrays_in_a_header_is_not_believed(files, tmp_path):
    parts = parts_of(files["model"])
    header = json.loads(parts["header.json"])
    parts["header.json"] = json.dumps({**header, "n_arrays": 10**9}).encode()
    write_parts(tmp_path / "fit.dive", parts)
    with pytest.raises(bd.ModelFileError, match="missing or unexpected entries"):
        bd.load_model(tmp_path / "fit.dive")


def test_table_of_three_thousand_million_rows_is_not_made(files, tmp_path):
    parts = parts_of(files["model"])
    text = parts["header.json"].decode()
    n_rows = len(bd.load_model(files["model"]).visits_)
    assert f'{{"table": [{n_rows}, ' in text
    forged = text.replace(f'{{"table": [{n_rows}, ', '{"table": [3000000000, ')
    write_parts(tmp_path / "fit.dive", {**parts, "header.json": forged.encode()})
    with pytest.raises(bd.ModelFileError, match="columns of different lengths"):
        bd.load_model(tmp_path / "fit.dive")


def test_compressed_image_that_would_fill_memory_is_refused(tmp_path):
    image = nib.MGHImage(np.zeros((4, 1, 1), dtype=np.float32), np.eye(4))
    image.to_filename(tmp_path / "small.mgh")
    content = bytearray((tmp_path / "small.mgh").read_bytes())
    content[4:16] = struct.pack(">3i", 3_000, 1_000, 1_000)
    (tmp_path / "bomb.mgz").write_bytes(gzip.compress(bytes(content) + bytes(10**6)))
    with pytest.raises(bd.CohortError, match=r"claims 12\.0 GB, which a compressed file"):
        bd.read_cohort(one_scan(tmp_path, "bomb.mgz"))


def test_compressed_image_that_goes_on_for_ever_is_read_no_further(tmp_path):
    image = nib.MGHImage(np.zeros((4, 1, 1), dtype=np.float32), np.eye(4))
    image.to_filename(tmp_path / "small.mgh")
    content = (tmp_path / "small.mgh").read_bytes()
    (tmp_path / "long.mgz").write_bytes(gzip.compress(content + bytes(50_000_000)))
    with pytest.raises(bd.CohortError, match="bytes or more, and not"):
        bd.read_cohort(one_scan(tmp_path, "long.mgz"))


def test_gifti_never_reads_another_file(tmp_path):
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    np.arange(5, dtype="<f4").tofile(secret / "secret.bin")
    study = tmp_path / "study"
    study.mkdir()
    text = GIFTI.format(
        n=5, encoding="ExternalFileBinary", external=str(secret / "secret.bin"), data=""
    )
    (study / "scan.gii").write_text(text)
    with pytest.raises(bd.CohortError, match=r"numbers are in another file .*secret\.bin"):
        bd.read_cohort(one_scan(study, "scan.gii"))


def test_gifti_that_unpacks_to_more_than_it_declares_is_refused(tmp_path):
    data = base64.b64encode(zlib.compress(bytes(10**7))).decode()
    text = GIFTI.format(n=5, encoding="GZipBase64Binary", external="", data=data)
    (tmp_path / "scan.gii").write_text(text)
    with pytest.raises(bd.CohortError, match="more numbers than it declares"):
        bd.read_cohort(one_scan(tmp_path, "scan.gii"))
