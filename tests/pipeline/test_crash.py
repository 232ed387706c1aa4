import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from notarius.pipeline import Settings, reconcile

Write = Callable[..., Path]
KILLS = 25
FILES = ("manifest.json", "receipt.json", "registry.json", "warnings.json")
# Writes two results over each other without end, so that a kill often meets a write.
PROGRAM = """
import sys
from pathlib import Path
from notarius.pipeline import Settings, reconcile
*sources, out = map(Path, sys.argv[1:])
runs = [Settings(registry="npc", candidates=source, out=out) for source in sources]
print("ready", flush=True)
while True:
    for settings in runs:
        reconcile(settings)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that can't be caught")
def test_a_killed_run_leaves_every_file_whole(
    candidate_file: Write, out: Path, tmp_path: Path
) -> None:
    """After kill -9 at any moment each file is the old or the new one, and the manifest tells."""
    results: dict[str, bytes] = {}
    sources = []
    for count in (2, 40):
        records = [{"source_id": f"{count}-{i}", "name": f"Name {i}"} for i in range(count)]
        sources.append(candidate_file(records, name=f"{count}.jsonl"))
        alone = tmp_path / f"alone-{count}"
        reconcile(Settings(registry="npc", candidates=sources[-1], out=alone))
        digest = hashlib.sha256(sources[-1].read_bytes()).hexdigest()
        results[digest] = (alone / "registry.json").read_bytes()
    command = [sys.executable, "-c", PROGRAM, *map(str, sources), str(out)]
    chance = random.Random(7)  # noqa: S311 - when to kill is no secret
    complete = 0
    for _ in range(KILLS):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.0, 0.04))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        complete += _require_whole(out, results)
    assert complete
    # What a killed run leaves behind is in nobody's way.
    reconcile(Settings(registry="npc", candidates=sources[0], out=out))
    assert _require_whole(out, results)


def _require_whole(out: Path, results: dict[str, bytes]) -> bool:
    """Require that each file is whole; return whether they are one complete set."""
    found = {name: (out / name).read_bytes() for name in FILES if (out / name).exists()}
    values = {name: json.loads(data) for name, data in found.items()}
    assert all(data.endswith(b"}\n") for data in found.values())
    assert found.get("registry.json", results[min(results)]) in results.values()
    if "receipt.json" in values:
        assert values["receipt.json"]["input"]["sha256"] in results
    if len(found) < len(FILES):
        return False
    listed = {entry["name"]: entry["sha256"] for entry in values["manifest.json"]["files"]}
    fits = {name: hashlib.sha256(found[name]).hexdigest() == listed[name] for name in listed}
    if all(fits.values()):
        # The manifest fits only if all files are of one run.
        source = values["receipt.json"]["input"]["sha256"]
        assert found["registry.json"] == results[source]
    return all(fits.values())
