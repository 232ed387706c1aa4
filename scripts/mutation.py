"""Change one package's code in one place after another, and see its tests fail each time.

Usage: `mutation.py PACKAGE [FILE…]`, from an environment with the packages, the test tools and
mutmut, whose operators say what is changed. mutmut's own driver has each mutant beside the original
in one function that picks one when it is called: so tables, limits, fields and decorated functions
stay as they are, and every call goes through a frame that is not ours. Here a mutant is the whole
file, and each is tried in a process of its own, forked from one that has the libraries loaded.

What survives must stand in `tests/mutation/survivors.txt` with the reason.
"""

import argparse
import contextlib
import json
import os
import py_compile
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import hypothesis
import hypothesis.stateful
import libcst as cst
import msgspec  # noqa: F401 - loaded once for every process that is forked
import pytest
from mutmut.mutation.mutators import mutation_operators, operator_string

ROOT: Final = Path(__file__).resolve().parents[1]
SURVIVORS: Final = ROOT / "tests" / "mutation" / "survivors.txt"
SHARE: Final = 0.95
"""What must be killed."""
EXAMPLES: Final = 20
"""Of each property; a counterexample is not made smaller, since nobody reads it."""
SLACK: Final = 4
SLACK_S: Final = 10
"""A mutant may take so many times the time of all tests, and so many seconds."""
MEMORY_BYTES: Final = 8 << 30
ENDLESS: Final = "took too much time or memory"
CONTEXT: Final = 24
"""Characters kept on either side of what differs, where a description is long."""


# ------------------------------------------------------------------------ making mutants


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A file with one change. The key holds no line number, so that it outlives other edits."""

    file: str
    key: str
    code: str


class _Sites(cst.CSTVisitor):
    """Collects each node that may be replaced, what by, and the definition that holds it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []
        self._names: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_no_behaviour(node):
            return False
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            self._names.append(node.name.value)
        for kind, operator in mutation_operators:
            if isinstance(node, kind) and not (operator is operator_string and _is_prose(node)):
                for changed in operator(node):
                    if not _is_impossible_case(node, changed):
                        self.found.append((".".join(self._names) or "<module>", node, changed))
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.ClassDef | cst.FunctionDef):
            self._names.pop()


def _is_no_behaviour(node: cst.CSTNode) -> bool:
    """Tell whether a node is left alone: types, imports, docstrings, lists of names."""
    match node:
        case cst.Annotation() | cst.Decorator() | cst.Import() | cst.ImportFrom():
            return True
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value="__all__"))]):
            return True
        case cst.Assign(value=cst.Call(func=cst.Name(value="TypeVar" | "ParamSpec"))):
            return True
        case cst.AnnAssign(annotation=cst.Annotation(annotation=cst.Name(value="TypeAlias"))):
            return True
        case cst.Call(func=cst.Name(value="assert_never")):
            return True
        case _:
            return False


def _is_impossible_case(node: cst.CSTNode, changed: cst.CSTNode) -> bool:
    """Tell whether what is dropped is a `case` that the type checker knows never to be reached."""
    if not isinstance(node, cst.Match) or not isinstance(changed, cst.Match):
        return False
    (dropped,) = (case for case in node.cases if case not in changed.cases)
    return "assert_never(" in cst.Module(body=[]).code_for_node(dropped)


def _is_prose(node: cst.CSTNode) -> bool:
    """Tell whether a literal is a sentence: tests must not hold the wording of those."""
    return isinstance(node, cst.SimpleString) and " " in node.raw_value.strip()


class _Replace(cst.CSTTransformer):
    """Replaces one node, known by identity."""

    def __init__(self, old: cst.CSTNode, new: cst.CSTNode) -> None:
        self._old, self._new = old, new

    def on_leave(  # type: ignore[override]  # any node may come in the place of any
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self._new if original_node is self._old else updated_node


def mutants_of(path: Path, file: str) -> Iterator[Mutant]:
    """Yield every mutant of a file that still compiles."""
    module = cst.parse_module(path.read_text(encoding="utf-8"))
    pieces = [module.code_for_node(node) for node in (*module.header, *module.body)]
    seen: Counter[str] = Counter()
    for at, statement in enumerate(module.body, start=len(module.header)):
        sites = _Sites()
        statement.visit(sites)
        for name, old, new in sites.found:
            changed = statement.visit(_Replace(old, new))
            piece = module.code_for_node(changed) if isinstance(changed, cst.CSTNode) else ""
            code = "".join((*pieces[:at], piece, *pieces[at + 1 :]))
            if piece == pieces[at] or not _compiles(code):
                continue
            before, after = module.code_for_node(old), module.code_for_node(new)
            key = f"{file} {name}: {_described(before, after)}"
            seen[key] += 1
            number = f" #{seen[key]}" if seen[key] > 1 else ""
            yield Mutant(file=file, key=key + number, code=code)


def _compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except (SyntaxError, ValueError):  # a star argument alone, say
        return False
    return True


def _described(old: str, new: str) -> str:
    """Return `old → new` on one line; of long ones only the part that differs."""
    old, new = " ".join(old.split()), " ".join(new.split())
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    before, after = max(0, start - CONTEXT), max(0, end - CONTEXT)
    return " → ".join(
        f"{'…' * (before > 0)}{text[before : len(text) - after]}{'…' * (after > 0)}"
        for text in (old, new)
    )


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common from their start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


# ------------------------------------------------------------------------ trying them


class _Session:
    """A pytest plugin: few examples, the tests in the order given, and what came of them."""

    def __init__(self, order: dict[str, tuple[int, float]]) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._order = order

    def pytest_sessionstart(self) -> None:
        """Set the profile after conftest.py has set its own, before any test is defined."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutation", hypothesis.settings(), max_examples=EXAMPLES, phases=phases
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put what is likely to fail first, then what is quick."""
        items.sort(key=lambda item: self._order.get(item.nodeid, (0, 0.0)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how long each test took, and which failed."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note which test file can't even be read."""
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass(kw_only=True)
class Slot:
    """A place for one process at a time: a copy of the package, and where it says what it saw."""

    folder: Path
    said: Path
    pid: int = 0
    mutant: Mutant | None = None
    until: float = 0.0


@dataclass(kw_only=True)
class Trial:
    """One package under mutation."""

    package: str
    slots: list[Slot]
    seconds: dict[str, float] = field(default_factory=dict)
    kills: dict[str, Counter[str]] = field(default_factory=dict)
    cpu_seconds: int = 600
    wall_seconds: float = 3600.0

    def start(self, slot: Slot, mutant: Mutant | None) -> None:
        """Fork a process that runs the package's tests on a mutant, or on the code as it is."""
        slot.mutant = mutant
        slot.said.unlink(missing_ok=True)
        slot.until = time.monotonic() + self.wall_seconds
        if mutant is not None:
            (slot.folder / mutant.file).write_text(mutant.code, encoding="utf-8")
        killers = self.kills.get(mutant.file, Counter()) if mutant else Counter[str]()
        order = {name: (-killers[name], took) for name, took in self.seconds.items()}
        sys.stdout.flush()
        slot.pid = os.fork()
        if slot.pid == 0:
            self._run(slot, order)

    def _run(self, slot: Slot, order: dict[str, tuple[int, float]]) -> NoReturn:
        """Run the tests in this process, which ends with it."""
        status = 3
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_seconds, self.cpu_seconds + 2))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            log = os.open(slot.said.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            # A test's own processes must see the mutant too.
            os.environ["PYTHONPATH"] = str(slot.folder)
            sys.path.insert(0, str(slot.folder))
            os.chdir(ROOT)
            session = _Session(order)
            status = pytest.main(
                [
                    *("-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider"),
                    f"tests/{self.package}",
                ],
                plugins=[session],
            )
            slot.said.write_text(json.dumps([session.seconds, session.failed]), encoding="utf-8")
        finally:
            sys.stdout.flush()
            os._exit(status)

    def wait(self) -> tuple[Slot, str | None]:
        """Wait for a process to end; return its slot and what killed the mutant, if anything."""
        while True:
            for slot in (slot for slot in self.slots if slot.pid):
                ended, status = os.waitpid(slot.pid, os.WNOHANG)
                late = time.monotonic() > slot.until
                if not ended and not late:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(slot.pid, signal.SIGKILL)  # and what a test left running
                if not ended:
                    _, status = os.waitpid(slot.pid, 0)
                slot.pid = 0
                return slot, self._ended(slot, status, late=late)
            time.sleep(0.01)

    def _ended(self, slot: Slot, status: int, *, late: bool) -> str | None:
        if late or os.WIFSIGNALED(status):
            return ENDLESS
        if os.waitstatus_to_exitcode(status) == 0:
            return None
        failed = json.loads(slot.said.read_text(encoding="utf-8"))[1] if slot.said.exists() else []
        return str(failed[0]) if failed else "the tests could not be run"

    def restore(self, slot: Slot) -> None:
        """Put the code as it is back into a slot."""
        if slot.mutant is not None:
            source = ROOT / "packages" / self.package / "src" / slot.mutant.file
            shutil.copyfile(source, slot.folder / slot.mutant.file)


def prepare(package: str, scratch: Path, processes: int) -> Trial:
    """Copy the package once for each process, and run its tests on the code as it is."""
    slots = []
    for number in range(processes):
        folder = scratch / f"copy-{number}"
        source = ROOT / "packages" / package / "src"
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in folder.rglob("*.py"):
            # Known by their content, so that a file can change twice within a clock tick.
            py_compile.compile(
                str(path), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
            )
        slots.append(Slot(folder=folder, said=scratch / f"said-{number}.json"))
    trial = Trial(package=package, slots=slots)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    trial.start(slots[0], None)
    slot, killer = trial.wait()
    if killer is not None:
        log = slot.said.with_suffix(".log").read_text(encoding="utf-8")
        sys.exit(f"The tests of {package} must pass on the code as it is.\n{log}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    trial.seconds = json.loads(slot.said.read_text(encoding="utf-8"))[0]
    trial.cpu_seconds = int(SLACK_S + SLACK * took)
    # A mutant can also wait for ever; what else the machine does is in both times.
    trial.wall_seconds = SLACK_S + SLACK * (time.monotonic() - began)
    print(f"{package}: {len(trial.seconds)} tests take {took:.1f} s of processor time")
    return trial


def survivors(trial: Trial, mutants: list[Mutant]) -> list[str]:
    """Try every mutant; return the keys of those that no test noticed."""
    alive: list[str] = []
    waiting = iter(mutants)
    free = list(trial.slots)
    done = 0
    while True:
        while free and (mutant := next(waiting, None)) is not None:
            trial.start(free.pop(), mutant)
        if len(free) == len(trial.slots):
            return sorted(alive)
        slot, killer = trial.wait()
        trial.restore(slot)
        free.append(slot)
        done += 1
        if slot.mutant is not None and killer is None:
            alive.append(slot.mutant.key)
            print(f"[{done}/{len(mutants)}] survived: {slot.mutant.key}", flush=True)
        elif slot.mutant is not None:
            trial.kills.setdefault(slot.mutant.file, Counter())[str(killer)] += 1
            if killer == ENDLESS:
                print(f"[{done}/{len(mutants)}] {killer}: {slot.mutant.key}", flush=True)


def explained(package: str) -> dict[str, str]:
    """Return the listed survivors of a package, each with its reason."""
    listed: dict[str, str] = {}
    for number, line in enumerate(SURVIVORS.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        key, bar, reason = line.rpartition(" | ")
        if not bar or not reason.strip():
            sys.exit(f"{SURVIVORS.name}, line {number}: write `MUTANT | why no test can see it`")
        if key.startswith(f"notarius/{package}/"):
            listed[key] = reason
    return listed


def main() -> int:
    """Mutate a package, or some of its files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("files", nargs="*", help="as _text.py; every file if none is named")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    options = parser.parse_args()
    source = ROOT / "packages" / options.package / "src"
    paths = [
        p for p in sorted(source.rglob("*.py")) if not options.files or p.name in options.files
    ]
    if not paths:
        sys.exit(f"No file of {options.package} is called {' or '.join(options.files)}")
    files = [path.relative_to(source).as_posix() for path in paths]
    mutants = [m for path, file in zip(paths, files, strict=True) for m in mutants_of(path, file)]
    if options.list:
        print("\n".join(mutant.key for mutant in mutants))
        return 0
    listed = {k: why for k, why in explained(options.package).items() if k.split()[0] in files}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        trial = prepare(options.package, Path(scratch), options.processes)
        alive = survivors(trial, mutants)
    seconds = time.monotonic() - began
    share = 1 - len(alive) / len(mutants)
    new = [key for key in alive if key not in listed]
    for key in (key for key in listed if key not in alive):
        print(f"Take out of {SURVIVORS.name}, since it survives no longer: {key}")
    for key in new:
        print(f"Not in {SURVIVORS.name}: {key}")
    print(
        f"{options.package}: {len(mutants) - len(alive)} of {len(mutants)} mutants killed "
        f"({share:.1%}), {len(alive) - len(new)} explained, {len(new)} not, in {seconds:.0f} s"
    )
    if few := share < SHARE and not options.files:
        print(f"At least {SHARE:.0%} of a package's mutants must be killed.")
    return 1 if new or few else 0


if __name__ == "__main__":
    sys.exit(main())
