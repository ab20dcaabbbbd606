"""Files of NumPy's own formats: every element type, both byte orders and orders of dims, every version of the header."""

import io
import pathlib
import zipfile

import numpy as np


def array(dtype: str) -> np.ndarray:
    """[2, 3]: small numbers, and the ends of the type's range."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([[0, 1, 1], [1, 0, 0]], kind)
    if kind.kind == "f":
        info = np.finfo(kind)
        return np.array([[0.5, -2, info.max], [info.tiny, -np.inf, np.nan]], kind)
    info = np.iinfo(kind)
    return np.array([[0, 1, 2], [100, info.min, min(info.max, np.iinfo(np.int64).max)]], kind)


def npy(x: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, x, version=version)
    return file.getvalue()


def save(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    types = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
    files = {
        "version1.npy": npy(array("<f4"), (1, 0)),
        "version2.npy": npy(array("<f4"), (2, 0)),
        "version3.npy": npy(array("<f4"), (3, 0)),
        "scalar.npy": npy(np.float64(2.5)),
        "vector.npy": npy(np.arange(3)),
        "empty.npy": npy(np.zeros((0, 4), np.float32)),
        "fortran.npy": npy(np.asfortranarray(np.arange(24, dtype=">i2").reshape(2, 3, 4))),
        "complex.npy": npy(np.ones(2, np.complex64)),
        "text.npy": npy(np.array(["a", "bc"])),
        "object.npy": npy(np.array([{}, None], object)),
        "structs.npy": npy(np.zeros(2, [("x", "<f4"), ("y", "<i4")])),
        "beyond_int64.npy": npy(np.array([2**63], np.uint64)),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with open(folder / "little.npz", "wb") as file:
        np.savez(file, **{t: array("<" + t) for t in types})
    with open(folder / "big.npz", "wb") as file:
        np.savez_compressed(file, **{t: array(">" + t) for t in types})
    with open(folder / "unnamed.npz", "wb") as file:
        np.savez(file, np.arange(3), np.ones((2, 2), np.float32))
    # NumPy writes neither of these: a text file beside an array, and an entry with another compression.
    with zipfile.ZipFile(folder / "note.npz", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), files["vector.npy"])
        archive.writestr(zipfile.ZipInfo("note.txt"), "hello")
    with zipfile.ZipFile(folder / "bzip2.npz", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), files["vector.npy"], zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(folder / "comment.npz", "w") as archive:
        archive.comment = b"a comment of the whole archive"
        archive.writestr(zipfile.ZipInfo("folder/\N{GREEK SMALL LETTER ALPHA}.npy"), files["vector.npy"])
    # In the form of large archives.
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 0
    with zipfile.ZipFile(folder / "zip64.npz", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), files["vector.npy"])
    zipfile.ZIP64_LIMIT = limit


if __name__ == "__main__":
    save(pathlib.Path(__file__).parent / "numpy")
