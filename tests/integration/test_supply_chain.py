"""What the packages bring with them: tried versions, under licences that ask for little."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = tuple(
    f"notarius-{name}"
    for name in (
        "contracts", "attempts", "semanticreconcile", "registries", "llmruntime", "pipeline",
    )
)  # fmt: skip
PERMISSIVE = re.compile(
    r"(MIT|ISC|Apache|BSD|PSF)([ -](License|Software License|[\d.]+|[23]-Clause))*"
)
# Asks to publish changes of its own files; for writing tests, and never there at run time.
FOR_TESTS_ALONE = {"hypothesis": "MPL-2.0"}


def _needs(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a distribution needs on this system, with some of its extras."""
    for line in distribution(name).requires or ():
        need = Requirement(line)
        environments = [{"extra": extra} for extra in ("", *extras)]
        if need.marker is None or any(need.marker.evaluate(one) for one in environments):
            yield need


def _closure(extras: dict[str, frozenset[str]]) -> set[str]:
    """The names of all distributions that our packages with these extras bring."""
    waiting = [(name, extras.get(name, frozenset())) for name in OURS]
    seen = set(waiting)
    while waiting:
        for need in _needs(*waiting.pop()):
            found = (canonicalize_name(need.name), frozenset(need.extras))
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return {name for name, _ in seen} - set(OURS)


def _extras(name: str) -> frozenset[str]:
    return frozenset(distribution(name).metadata.get_all("Provides-Extra") or ())


def _licences(found: Distribution) -> list[str]:
    """The licences of a distribution, from whichever field of its metadata names them."""
    said = next(
        (
            text
            for field in ("License-Expression", "License")
            for text in found.metadata.get_all(field) or ()
            if text and "\n" not in text  # some have the whole text in the old field
        ),
        None,
    )
    if said:
        return re.split(r" (?:OR|AND) ", said)
    return [
        line.rpartition(" :: ")[2]
        for line in found.metadata.get_all("Classifier") or ()
        if line.startswith("License :: OSI Approved ::")
    ]


@pytest.mark.parametrize("package", OURS)
def test_every_dependency_is_bounded(package: str) -> None:
    """A version that nobody has tried comes into no environment by itself."""
    needs = [Requirement(line) for line in distribution(package).requires or ()]
    bounded = {
        need.name
        for need in needs
        if {">=", "<"} <= {one.operator for one in need.specifier}
    }  # fmt: skip
    assert {need.name for need in needs} - {package} == bounded


def test_every_licence_is_permissive() -> None:
    """Whoever ships an application with the packages need publish nothing, whatever the extra."""
    everything = _closure({name: _extras(name) for name in OURS})
    assert len(everything) > len(OURS)
    found = {name: _licences(distribution(name)) for name in everything - FOR_TESTS_ALONE.keys()}
    asking = {
        name: said
        for name, said in found.items()
        if not said or not all(PERMISSIVE.fullmatch(one) for one in said)
    }
    assert asking == {}


def test_what_tests_need_is_needed_by_tests_alone() -> None:
    """A library under another licence comes with the extra `testing`, and with nothing else."""
    with_tests = _closure({name: _extras(name) for name in OURS})
    without = _closure({name: _extras(name) - {"testing"} for name in OURS})
    assert with_tests & FOR_TESTS_ALONE.keys()
    assert not without & FOR_TESTS_ALONE.keys()
    for name in with_tests & FOR_TESTS_ALONE.keys():
        assert _licences(distribution(name)) == [FOR_TESTS_ALONE[name]]


def test_the_tests_that_security_md_names_are_there() -> None:
    """A promise stands there with the test that shows it, and the test has not gone since."""
    root = Path(__file__).parents[2]
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (root / "SECURITY.md").read_text("utf-8"))
    assert len(named) > len(OURS)
    for file, name in named:
        text = (root / "tests" / file).read_text("utf-8")
        assert re.search(rf"def {name}\(", text), f"{file}::{name}"
