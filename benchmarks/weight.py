"""What it costs to have a library: the time of its first import, and what is installed with it."""

import json
import subprocess
from typing import Final, TypeAlias

Installed: TypeAlias = dict[str, tuple[str, int]]
"""Version and bytes of each distribution, by name."""

# Nothing is imported before that a library would have to import itself.
_IMPORT: Final = """
import time
began = time.process_time()
{statement}
print((time.process_time() - began) * 1000)
"""
_INSTALLED: Final = """
import json, pathlib
from importlib.metadata import distributions
found = {}
for one in distributions():
    files = [pathlib.Path(one.locate_file(file)) for file in one.files or ()]
    sizes = [file.stat().st_size for file in files if file.suffix != ".pyc" and file.is_file()]
    found[one.metadata["Name"]] = one.version, sum(sizes)
print(json.dumps(found))
"""


def import_ms(python: str, statement: str) -> float:
    """Run an import in a fresh interpreter; return the milliseconds of a processor that it took."""
    return float(_run(python, _IMPORT.format(statement=statement)))


def installed(python: str) -> Installed:
    """Return what is installed in the environment of an interpreter, without compiled bytecode."""
    found: Installed = {
        name: (version, size)
        for name, (version, size) in json.loads(_run(python, _INSTALLED)).items()
    }
    return found


def _run(python: str, code: str) -> str:
    return subprocess.run(  # noqa: S603 - the interpreters that we are given
        [python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
