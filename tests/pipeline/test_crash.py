import hashlib
import json
import os
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
# For each line on its standard input, writes two results over each other without end in a process
# of its own, so that a kill often meets a write, and says which one that is. Python is started and
# everything imported only once.
PROGRAM = """
import os, sys
from pathlib import Path
from notarius.pipeline import Settings, reconcile
*sources, out = map(Path, sys.argv[1:])
runs = [Settings(registry="npc", candidates=source, out=out) for source in sources]
reconcile(runs[0])
for _ in sys.stdin:
    child = os.fork()
    while not child:
        for settings in runs:
            reconcile(settings)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
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
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(KILLS):
            process.stdin.write(b"\n")
            process.stdin.flush()
            writer = int(process.stdout.readline())
            time.sleep(chance.uniform(0.0, 0.04))
            os.kill(writer, signal.SIGKILL)
            assert int(process.stdout.readline()) == -signal.SIGKILL
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
