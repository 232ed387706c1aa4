"""The gate: lint, types, builds, and every package's tests against its own wheel."""

import os
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
        *("--lists", "coins=110,people=110,items=60,places=80"),
    ),
    "qwen": (
        *("--part", "report", "--refused", "104", "--sizes", "8,9,10"),
        *("--lists", "coins=110,people=36,items=16,places=28"),
    ),
}
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


def install_wheels(session: nox.Session, *packages: str, extra: tuple[str, ...] = ()) -> None:
    """Install built packages with what they declare, and the test tools; check the result.

    The constraints bind each `notarius-…` name to a wheel in dist/, never to an index.
    """
    names = [f"notarius-{package}" for package in packages]
    session.install("--constraint", str(CONSTRAINTS), *names, *group("test"), *extra)
    session.run("python", "scripts/check_install.py", str(DIST), *packages, silent=True)
    # tests/conftest.py then refuses to run against anything but installed packages.
    session.env["NOTARIUS_TEST_INSTALLED"] = "1"


@nox.session(python=REQUIRED_PYTHON)
def lint(session: nox.Session) -> None:
    """Check format, style, layering, and that no package is left out of a list."""
    on_disk = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("packages/*/src"))
    lists = {
        "packages in noxfile.py": source_dirs(),
        "mypy_path": sorted(PROJECT["tool"]["mypy"]["mypy_path"]),
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


@nox.session(python=PYTHONS, requires=["build"])
@nox.parametrize("package", [nox.param(package, id=package) for package in PACKAGES])
def wheel(session: nox.Session, package: str) -> None:
    """Run one package's tests against its wheel, with only what that wheel declares."""
    install_wheels(session, package)
    session.run("pytest", f"tests/{package}", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def floors(session: nox.Session) -> None:
    """Run the packages' tests with the oldest dependencies that they allow."""
    # Only what is named in the command counts as direct, so the packages' needs are named.
    oldest = ("--resolution", "lowest-direct", *third_party(extras=True))
    install_wheels(session, *PACKAGES, extra=oldest)
    folders = (*PACKAGES, "servers")
    session.run("pytest", *(f"tests/{folder}" for folder in folders), *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"])
def tests(session: nox.Session) -> None:
    """Run all tests together, with every extra; integration and documentation included."""
    install_wheels(session, *PACKAGES, extra=tuple(third_party(extras=True)))
    # The typing tests need mypy and belong to the types session; these two need what is not here.
    others = ("--ignore=tests/typing", "--ignore=tests/smallmodel", "--ignore=tests/browser")
    session.run("pytest", *others, *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
def browser(session: nox.Session) -> None:
    """Open a report in this machine's Chromium, headless; no browser is fetched."""
    install_wheels(session, *PACKAGES, extra=group("browser"))
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session(python=REQUIRED_PYTHON, requires=["build"], default=False)
def smallmodel(session: nox.Session) -> None:
    """Run the command with two real small models; fetches 1.2 GB the first time."""
    install_wheels(session, *PACKAGES, extra=(*third_party(extras=True), *group("models")))
    for name in ("smol", "qwen"):
        path = session.run("python", "benchmarks/models.py", name, silent=True)
        session.env[f"NOTARIUS_MODEL_{name.upper()}"] = str(path).strip()
    session.run("pytest", "tests/smallmodel", *session.posargs)


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
        python = ROOT / ".nox" / f"repair-{name}" / "bin" / "python"
        session.run("uv", "venv", "--quiet", "--clear", str(python.parents[1]), external=True)
        session.run(
            *("uv", "pip", "install", "--quiet", "--python", str(python)),
            *("--constraint", str(CONSTRAINTS), "notarius-registries", *group(name)),
            external=True,
        )
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
