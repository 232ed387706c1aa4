"""The gate: lint, types, builds, and every package's tests against its own wheel."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import nox

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
CONSTRAINTS = DIST / "constraints.txt"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
# Lowest layer first.
PACKAGES = (
    "contracts",
    "attempts",
    "semanticreconcile",
    "registries",
    "llmruntime",
    "pipeline",
)
REQUIRED_PYTHON = "3.11"
# What docs/small-models.md reports; the smaller model gets shorter lists.
REPORTED = {
    "smol": (
        *("--part", "report", "--refused", "104", "--sizes", "6,7,8"),
        *("--lists", "coins=140,people=40,items=25,places=30"),
    ),
    "qwen": (
        *("--part", "report", "--refused", "104", "--sizes", "8,9,10"),
        *("--lists", "coins=125,people=36,items=16,places=28"),
    ),
}
# Shells, terminals, kills and interrupted runs take half of the time of the tests of the pipeline
# and the servers: where other versions are tried, they are left out.
WITHOUT_KILLS = (
    *(
        f"--ignore=tests/pipeline/test_{name}.py"
        for name in ("completion", "crash", "interrupts", "shared_folder", "terminal")
    ),
    "--ignore=tests/servers/test_resume.py",
)
SUPPORTED_PYTHONS = (REQUIRED_PYTHON, "3.12", "3.13", "3.14")

nox.needs_version = ">=2026"  # older ones are not tried
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
# Trust what the system trusts, as pip does: an index may be behind a certificate of its own.
os.environ.setdefault("UV_SYSTEM_CERTS", "true")
# A variable of the caller must not put a source tree on the path of an environment.
os.environ.pop("PYTHONPATH", None)


def usable_python(version: str) -> bool:
    """Tell whether this Python runs, and make sure that its name on PATH finds it.

    A name on PATH is not enough: pyenv leaves a shim that fails for each version that
    it does not select. The versions it has installed are looked for in its own folder.
    """
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))
    for candidate in filter(None, (shutil.which(name), *map(str, installed))):
        probe = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)  # noqa: S603 - found above
        if probe.returncode == 0:
            if candidate != shutil.which(name):
                os.environ["PATH"] = os.pathsep.join(
                    (str(Path(candidate).parent), os.environ["PATH"])
                )
            return True
    return False


FOUND = tuple(version for version in SUPPORTED_PYTHONS if usable_python(version))
# The required one always has its sessions: without it they fail instead of vanishing.
PYTHONS = tuple(v for v in SUPPORTED_PYTHONS if v in FOUND or v == REQUIRED_PYTHON)
if skipped := [v for v in SUPPORTED_PYTHONS if v not in PYTHONS]:
    print(f"Not on this machine, so not tested here: Python {', '.join(skipped)}", file=sys.stderr)


def group(name: str) -> tuple[str, ...]:
    """Return the pinned requirements of one dependency group."""
    return nox.project.dependency_groups(PROJECT, name)


def source_dirs() -> list[str]:
    """Return each package's source folder, relative to the root."""
    return sorted(f"packages/{package}/src" for package in PACKAGES)


def third_party(*, extras: bool = False) -> list[str]:
    """Return what the packages need besides one another."""
    projects = [
        nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")["project"]
        for package in PACKAGES
    ]
    lists = [project["dependencies"] for project in projects]
    if extras:
        for project in projects:
            lists += project.get("optional-dependencies", {}).values()
    needed = chain.from_iterable(lists)
    return sorted({need for need in needed if not need.startswith("notarius-")})


def archives(folder: Path) -> list[Path]:
    """Return the wheels and sdists in a folder."""
    return sorted((*folder.glob("*.whl"), *folder.glob("*.tar.gz")))


def name_of(need: str) -> str:
    """Return the name of what a requirement is about."""
    return re.split(r"[^\w.-]", need, maxsplit=1)[0]


def check_bounds(session: nox.Session, resolution: str) -> None:
    """Say which version of each dependency is here; another than the ranges give is an error."""
    needs = {name_of(need): need for need in third_party(extras=True)}
    listed = Path(session.create_tmp()) / "needs.txt"
    listed.write_text("\n".join(needs.values()), encoding="utf-8")
    python = ("--python", str(Path(session.bin) / "python"))
    compiled = ("compile", "--no-header", "--no-annotate", "--upgrade", "--resolution", resolution)
    given, here = (
        dict(
            line.split("==")
            for line in str(session.run(*command, silent=True, external=True)).splitlines()
            if re.fullmatch(r"[\w.-]+==[\w.+-]+", line)
        )
        for command in (
            ("uv", "pip", *compiled, "--quiet", *python, str(listed)),
            ("uv", "pip", "freeze", "--quiet", *python),
        )
    )
    for name, need in needs.items():
        session.log(f"{name} {here[name]}, of {need.removeprefix(name)}")
    others = [
        f"{name} {here[name]}, not {given[name]}" for name in needs if here[name] != given[name]
    ]
    if others:
        session.error(f"Not what the ranges alone give ({resolution}): {'; '.join(others)}")


def install_wheels(session: nox.Session, *packages: str, extra: tuple[str, ...] = ()) -> None:
    """Install built packages with what they declare, and the test tools; check the result.

    The constraints bind each `notarius-…` name to a wheel in dist/, never to an index.
    """
    names = [f"notarius-{package}" for package in packages]
    # Of what is a tool here and a dependency there, the packages' own range decides.
    asked = {name_of(need) for need in extra}
    tools = [pin for pin in group("test") if name_of(pin) not in asked]
    session.install("--constraint", str(CONSTRAINTS), *names, *tools, *extra)
    session.run("python", "scripts/check_install.py", str(DIST), *packages, silent=True)
    # tests/conftest.py then refuses to run against anything but installed packages.
    session.env["NOTARIUS_TEST_INSTALLED"] = "1"


def environment(session: nox.Session, name: str, *needs: str) -> Path:
    """Lay an environment anew with what is needed and nothing else; return its Python."""
    python = ROOT / ".nox" / name / "bin" / "python"
    session.run("uv", "venv", "--quiet", "--clear", str(python.parents[1]), external=True)
    session.run(
        *("uv", "pip", "install", "--quiet", "--python", str(python)),
        *("--constraint", str(CONSTRAINTS), *needs),
        external=True,
    )
    return python


@nox.session(python=REQUIRED_PYTHON)
def lint(session: nox.Session) -> None:
    """Check format, style, layering, and that no package is left out of a list."""
    on_disk = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("packages/*/src"))
    lists = {
        "packages in noxfile.py": source_dirs(),
        "mypy_path": sorted(PROJECT["tool"]["mypy"]["mypy_path"]),
        "basedpyright's extraPaths": sorted(PROJECT["tool"]["basedpyright"]["extraPaths"]),
        "import-linter's root_packages": sorted(
            f"packages/{name.removeprefix('notarius.')}/src"
            for name in PROJECT["tool"]["importlinter"]["root_packages"]
        ),
    }
    for name, listed in lists.items():
        if listed != on_disk:
            session.error(f"{name} and packages/*/src differ: {set(listed) ^ set(on_disk)}")
    licence = (ROOT / "LICENSE").read_bytes()
    for package in PACKAGES:
        if (ROOT / "packages" / package / "LICENSE").read_bytes() != licence:
            session.error(f"packages/{package}/LICENSE differs from LICENSE")
    session.install(*group("lint"))
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    # Analysed from source, so nothing needs to be installed for it.
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": os.pathsep.join(source_dirs())})


@nox.session(python=REQUIRED_PYTHON)
def types(session: nox.Session) -> None:
    """Check all code with mypy, then that the typing tests report what they must."""
    session.install(*group("types"), *third_party(extras=True))
    session.run("mypy")
    session.run("pytest", "tests/typing", *session.posargs)


@nox.session(python=REQUIRED_PYTHON)
def api(session: nox.Session) -> None:
    """Compare the public API of each package with that of its last release."""
    session.install(*group("api"))
    session.run("python", "-m", "scripts.check_api")


@nox.session(python=REQUIRED_PYTHON)
def build(session: nox.Session) -> None:
    """Build each sdist, each wheel from its sdist, and check what is in them."""
    session.install(*group("build"))
    shutil.rmtree(DIST, ignore_errors=True)
    for package in PACKAGES:
        session.run(
            *("python", "-m", "build", "--no-isolation", "--outdir", str(DIST)),
            f"packages/{package}",
            silent=True,
        )
    session.run("python", "scripts/check_wheels.py", str(DIST), *PACKAGES)
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())), silent=True)
    # A same-named wheel from an earlier build can't be taken for this one: these are
    # file addresses, and scripts/check_install.py compares the installed bytes.
    wheels = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in DIST.glob("*.whl")}
    lines = [f"{name} @ {wheel.as_uri()}\n" for name, wheel in sorted(wheels.items())]
    CONSTRAINTS.write_text("".join(lines), encoding="utf-8")


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def reproducible(session: nox.Session) -> None:
    """Build everything again in another place, from files of another age, and compare the bytes."""
    session.install(*group("build"))
    again = Path(session.create_tmp()) / "again"
    shutil.rmtree(again, ignore_errors=True)
    source = again / "a deeper place" / "packages"
    shutil.copytree(ROOT / "packages", source, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    shutil.copy(ROOT / ".gitignore", source.parent)  # hatchling puts it into each sdist
    for path in source.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1e9, 1e9))
    for package in PACKAGES:
        session.run(
            *("python", "-m", "build", "--no-isolation", "--outdir", str(again)),
            str(source / package),
            silent=True,
        )
    built, rebuilt = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives(folder)}
        for folder in (DIST, again)
    )
    if built != rebuilt:
        names = sorted({name for name, _ in built.items() ^ rebuilt.items()})
        session.error(f"A second build gives other bytes: {', '.join(names)}")
    session.log(f"{len(built)} wheels and sdists have the same bytes when built again")


@nox.session(python=PYTHONS, requires=["build"])
@nox.parametrize("package", [nox.param(package, id=package) for package in PACKAGES])
def wheel(session: nox.Session, package: str) -> None:
    """Run one package's tests against its wheel, with only what that wheel declares."""
    install_wheels(session, package)
    session.run("pytest", f"tests/{package}", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def typed(session: nox.Session) -> None:
    """See that the wheels tell a type checker everything about their public names."""
    pyright = (need for need in group("types") if need.startswith("basedpyright=="))
    install_wheels(session, *PACKAGES, extra=(*third_party(extras=True), *pyright))
    for package in PACKAGES:
        # What others left untyped is passed over; less than all of ours is an error.
        session.run(
            *("basedpyright", "--ignoreexternal", "--verifytypes", f"notarius.{package}"),
            silent=True,
        )
        session.log(f"notarius.{package} is typed in full")


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def siblings(session: nox.Session) -> None:
    """Run each package's tests with its wheel and the oldest released siblings that it admits."""
    session.install(*group("build"))
    laid_out = Path(session.create_tmp()) / "siblings"
    shutil.rmtree(laid_out, ignore_errors=True)
    tested = []
    for package in PACKAGES:
        folder = laid_out / package
        laying = ("-m", "scripts.oldest_siblings", package, str(DIST), str(folder))
        session.log(str(session.run("python", *laying, silent=True)).strip())
        if not folder.exists():
            continue
        venv = ROOT / ".nox" / f"siblings-{package}"
        python = str(venv / "bin" / "python")
        session.run("uv", "venv", "--quiet", "--clear", str(venv), external=True)
        session.run(
            *("uv", "pip", "install", "--quiet", "--python", python),
            *("--constraint", str(folder / "constraints.txt"), f"notarius-{package}"),
            *group("test"),
            external=True,
        )
        check = (python, "scripts/check_install.py", str(folder), package)
        session.run(*check, silent=True, external=True)
        session.run(
            *(python, "-m", "pytest", f"tests/{package}", *WITHOUT_KILLS, *session.posargs),
            env={"NOTARIUS_TEST_INSTALLED": "1"},
            external=True,
        )
        tested.append(package)
    session.log(f"Tested with older siblings: {', '.join(tested) or 'none'}")


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def downstream(session: nox.Session) -> None:
    """Use the wheels as a repository of somebody else does, with a registry of its own."""
    # Away from this tree, so that nothing of it can be read or configure anything.
    copy = Path(session.create_tmp()) / "downstream"
    shutil.rmtree(copy, ignore_errors=True)
    unwanted = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis", "build", "dist")
    shutil.copytree(ROOT / "examples" / "downstream", copy, ignore=unwanted)
    # Its ranges decide what is allowed, our pins what of it is taken.
    pins = (*group("test"), *(need for need in group("types") if need.startswith("mypy==")))
    session.install(
        *("--constraint", str(CONSTRAINTS), str(copy), *pins),
        *("--group", f"{copy / 'pyproject.toml'}:test"),
    )
    session.run("python", "scripts/check_install.py", str(DIST), *PACKAGES[:4], silent=True)
    with session.chdir(copy):
        session.run("mypy")
        session.run("pytest", *session.posargs)
        session.run("factionbook", "factions.ndjson", "--out", "registry.json")


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def floors(session: nox.Session) -> None:
    """Run the packages' tests with the oldest dependencies that they allow."""
    # Only what is named in the command counts as direct, so the packages' needs are named.
    oldest = ("--resolution", "lowest-direct", *third_party(extras=True))
    install_wheels(session, *PACKAGES, extra=oldest)
    check_bounds(session, "lowest-direct")
    folders = (*PACKAGES, "servers", "pins/test_payloads.py")
    session.run("pytest", *(f"tests/{name}" for name in folders), *WITHOUT_KILLS, *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def tests(session: nox.Session) -> None:
    """Run all tests together, with every extra; integration and documentation included."""
    install_wheels(session, *PACKAGES, extra=(*third_party(extras=True), *group("api")))
    check_bounds(session, "highest")
    # The typing tests need mypy and belong to the types session; these need what is not here.
    others = ("typing", "smallmodel", "browser", "docs", "releasing")
    session.run("pytest", *(f"--ignore=tests/{name}" for name in others), *session.posargs)


@nox.session(python=REQUIRED_PYTHON)
def releasing(session: nox.Session) -> None:
    """Release made-up packages in repositories of their own, and a real one as a dry run."""
    session.install(*group("release"), *group("test"), *third_party())
    session.run("pytest", "tests/releasing", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, default=False)
def release(session: nox.Session) -> None:
    """Release one package: `-- PACKAGE VERSION|patch|minor|major [--dry-run]`; uploads nothing."""
    # The packages run from the tree that is released, beside what they need.
    session.install(*group("release"), *third_party())
    session.run("python", "-m", "scripts.release", *session.posargs)


@nox.session(python=REQUIRED_PYTHON)
def docs(session: nox.Session) -> None:
    """Build the documentation into build/site; a link or a name that leads nowhere is an error."""
    session.install(*group("docs"), *group("test"))
    session.run("python", "scripts/docs.py")
    session.run("zensical", "build", "--strict", "--clean")
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build", "docs"], default=False)
def browser(session: nox.Session) -> None:
    """Open a report and the documentation in this machine's Chromium; no browser is fetched."""
    install_wheels(session, *PACKAGES, extra=group("browser"))
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
def audit(session: nox.Session) -> None:
    """Look up what is known against the packages' dependencies; needs the public index.

    No answer is no clean result: whatever could not be looked up is an error.
    """
    session.install(*group("audit"))
    audited = ROOT / ".nox" / "audited"
    session.run("uv", "venv", "--quiet", "--clear", str(audited), external=True)
    session.run(
        *("uv", "pip", "install", "--quiet", "--python", str(audited / "bin" / "python")),
        *("--constraint", str(CONSTRAINTS), *(f"notarius-{package}" for package in PACKAGES)),
        *third_party(extras=True),
        external=True,
    )
    (installed,) = audited.glob("lib/python*/site-packages")
    answer = Path(session.create_tmp()) / "answer.json"
    answer.unlink(missing_ok=True)
    session.run(
        *("pip-audit", "--path", str(installed), "--progress-spinner", "off"),
        *("--format", "json", "--output", str(answer)),
        silent=True,  # its "nothing found" may mean that nothing was looked up
        success_codes=[0, 1],  # 1 is either a vulnerability or no answer
    )
    if not answer.exists():
        session.error("NOTHING WAS CHECKED: no answer from the index; try again with a network")
    found = json.loads(answer.read_text(encoding="utf-8"))["dependencies"]
    foreign = [one for one in found if not one["name"].startswith("notarius-")]
    unknown = [one["name"] for one in foreign if "vulns" not in one]
    if unknown:
        how_many = "NOTHING WAS CHECKED" if len(unknown) == len(foreign) else "NOT ALL WAS CHECKED"
        session.error(f"{how_many}: the index could say nothing about {', '.join(unknown)}")
    known = [
        f"{one['name']} ({', '.join(v['id'] for v in one['vulns'])})"
        for one in foreign
        if one["vulns"]
    ]
    if known:
        session.error(f"Vulnerabilities are known in {', '.join(known)}; raise the lower bounds")
    session.log(f"{len(foreign)} packages were looked up; nothing is known against them")


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
@nox.parametrize("package", [nox.param(package, id=package) for package in PACKAGES[:4]])
def mutation(session: nox.Session, package: str) -> None:
    """See a core package's tests fail on each change of its code; takes up to an hour each.

    What is given after `--` goes to scripts/mutation.py, as `_text.py` for one file.
    """
    install_wheels(session, *PACKAGES, extra=tuple(group("mutation")))
    # The tests are to meet the changed code, which is no installed wheel.
    del session.env["NOTARIUS_TEST_INSTALLED"]
    session.run("python", "scripts/mutation.py", package, *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
def smallmodel(session: nox.Session) -> None:
    """Run the command with two real small models; fetches 1.2 GB the first time."""
    install_wheels(session, *PACKAGES, extra=(*third_party(extras=True), *group("models")))
    for name in ("smol", "qwen"):
        path = session.run("python", "benchmarks/models.py", name, silent=True)
        session.env[f"NOTARIUS_MODEL_{name.upper()}"] = str(path).strip()
    session.run("pytest", "tests/smallmodel", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
def performance(session: nox.Session) -> None:
    """Measure time, memory and weight, beside two libraries; takes twenty minutes of one core.

    What is given after `--` goes to benchmarks/performance.py, as `--part weight`.
    """
    install_wheels(session, *PACKAGES, extra=tuple(third_party(extras=True)))
    needs = {
        **{package: (f"notarius-{package}",) for package in PACKAGES},
        **{name: group(name) for name in ("instructor", "pydantic-ai")},
    }
    pythons = [
        f"--env={name}={environment(session, f'performance-{name}', *needed)}"
        for name, needed in needs.items()
    ]
    out = ROOT / "build" / "performance.md"
    out.parent.mkdir(exist_ok=True)
    session.run(
        *("python", "-m", "benchmarks.performance", *pythons),
        *("--wheels", str(DIST), "--out", str(out), *session.posargs),
    )


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
@nox.parametrize("model", [nox.param(name, id=name) for name in ("smol", "qwen")])
def repair(session: nox.Session, model: str) -> None:
    """Measure corrections against blind retries and two libraries; takes hours.

    What is given after `--` goes to benchmarks/repair.py, as other lists or another part.
    """
    install_wheels(
        session, *PACKAGES, extra=(*third_party(extras=True), *group("models"), *group("measure"))
    )
    peers = []
    for name in ("instructor", "pydantic-ai"):
        python = environment(session, f"repair-{name}", "notarius-registries", *group(name))
        peers += ["--peer", f"{name}={python}"]
    found = session.run("python", "benchmarks/models.py", model, silent=True)
    out = ROOT / "build" / f"repair-{model}.jsonl"
    out.parent.mkdir(exist_ok=True)
    out.unlink(missing_ok=True)
    with subprocess.Popen(  # noqa: S603 - our own server
        [*(str(Path(session.bin) / "python"), "benchmarks/serve.py", str(found).strip())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        address = server.stdout.readline().strip() if server.stdout else ""
        session.run(
            *("python", "-m", "benchmarks.repair", "--model", model, "--base-url", address),
            *("--out", str(out), *peers, *(session.posargs or REPORTED[model])),
        )
        if server.stdin:
            server.stdin.close()
    session.run("python", "-m", "benchmarks.tables", str(out))
