"""Compare the public API of each package with that of its last release: `-m scripts.check_api`.

The public API is what `__all__` of a public module names. griffe finds what is gone and what a
function no longer takes; what it does not look at is compared here: types, values, enums, bases,
decorators. All are compared as they are written, with what private constants in them stand for.
adr/0014 says what counts as breaking, and why.
"""

import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import griffe
from scripts.pins import may_break, project
from scripts.releases import ROOT, GitError, is_shallow, releases, unpack

PACKAGES: Final = tuple(sorted(path.parent.name for path in ROOT.glob("packages/*/src")))
ACCEPTED: Final = ROOT / "tests" / "pins" / "accepted.toml"
"""Breaking changes that break nobody, as `[PACKAGE]` and `"CHANGE" = "REASON"`."""

_UNSEEN: Final = {"cache_hash", "gc", "weakref"}
"""What a struct is told about its own memory, which no user sees."""
_MADE_BY: Final = {"__init__", "__new__", "__init_subclass__"}
"""What is called where somebody makes an instance, or a subclass."""
_HARMLESS: Final = {"deprecated", "override"}
"""Decorators that tell something, and change nothing."""
_GAINS: Final = {"deletable", "writable"}
"""What an attribute may become at any time, and may not cease to be."""
_VERSION: Final = {"__getattr__", "__version__"}
_SORTS: Final = {"instance-attribute", "property", *_GAINS}

Thing: TypeAlias = griffe.Object | griffe.Alias


def closure(package: str) -> set[str]:
    """Return a package and the siblings that it needs, and those that they need."""
    names = (re.match(r"notarius-(\w+)", need) for need in project(package)["dependencies"])
    return {package}.union(*(closure(name[1]) for name in names if name))


def load(package: str, source: Path) -> griffe.Module:
    """Return a package as it is in a folder; its siblings, of which it inherits, from the tree."""
    names = closure(package)
    sources = [source, *(ROOT / "packages" / name / "src" for name in names - {package})]
    loader = griffe.GriffeLoader(search_paths=sources, allow_inspection=False)
    for name in names:
        loader.load(f"notarius.{name}")
    loader.resolve_aliases(external=False)
    found = loader.modules_collection[f"notarius.{package}"]
    if not isinstance(found, griffe.Module):
        raise TypeError(f"notarius.{package} is no package")
    return found


def breaking_changes(package: str, old: Path, new: Path | None = None) -> list[str]:
    """Return what breaks whoever uses a package, between two folders of sources.

    Siblings come from the tree in both cases, so that each package answers for itself alone.
    """
    before = load(package, old)
    after = load(package, new or ROOT / "packages" / package / "src")
    found = {_told(breakage) for breakage in griffe.find_breaking_changes(before, after)}
    return sorted({*found, *_compared(before, after, f"notarius.{package}")})


def _told(breakage: griffe.Breakage) -> str:
    """Say where it is, what it is, and what was there and is there now, on one line."""
    old, new = (str(value) for value in (breakage.old_value, breakage.new_value))
    place = breakage.obj.path
    if isinstance(breakage, griffe.ObjectRemovedBreakage):
        return f"{place}: is gone"
    parameter = breakage.old_value or breakage.new_value
    if isinstance(parameter, griffe.Parameter):
        return f"{place}({parameter.name}): {breakage.kind.value.lower()}"
    return f"{place}: {breakage.kind.value.lower()}, from {old} to {new}"


def _public(thing: Thing) -> dict[str, Thing]:
    """Return the public members of a module or class by name, those of private bases included."""
    return {name: member for name, member in thing.all_members.items() if member.is_public}


def _compared(old: Thing, new: Thing, package: str) -> Iterator[str]:
    """Yield what griffe passes over, for all public members that both have."""
    ours = new.is_module
    before, after = _public(old), _public(new)
    yield from _hidden(old, new)
    for name in before.keys() & after.keys():
        one, other = (_target(member) for member in (before[name], after[name]))
        place = f"{new.path}.{name}"
        if one is not None and other is None:
            yield f"{place}: is gone"
        # What comes from elsewhere is compared where it is made.
        if one is None or other is None or not other.canonical_path.startswith(f"{package}."):
            continue
        if one.kind is not other.kind:
            continue  # griffe says so
        if other.is_module or other.is_class:
            yield from _compared(one, other, package)
        if isinstance(one, griffe.Class) and isinstance(other, griffe.Class):
            yield from _classes(one, other, place)
        elif isinstance(one, griffe.Function) and isinstance(other, griffe.Function):
            yield from _functions(one, other, place)
        elif isinstance(one, griffe.Attribute) and isinstance(other, griffe.Attribute):
            yield from _attributes(one, other, place, ours=ours)


def _hidden(old: Thing, new: Thing) -> Iterator[str]:
    for name in (_public(old).keys() - _public(new).keys()) & new.all_members.keys():
        yield f"{new.path}.{name}: is not public any more"
    # What gives the version is in no `__all__`.
    if old.is_module and _VERSION & old.members.keys() and not _VERSION & new.members.keys():
        yield f"{new.path}.__version__: is gone"


def _target(thing: Thing) -> griffe.Object | None:
    try:
        return thing.final_target if isinstance(thing, griffe.Alias) else thing
    except griffe.AliasResolutionError:
        return None


def _changed(place: str, what: str, old: object, new: object) -> Iterator[str]:
    """Yield that something was another, as it is written or by what private names stand for."""
    one, other = (None if value is None else str(value) for value in (old, new))
    if one == other:
        one, other = _meant(old), _meant(new)
    if one != other:
        yield f"{place}: {what}, from {one} to {other}"


def _meant(value: object, inside: frozenset[str] = frozenset()) -> str:
    """Return an expression with the values of constants that are compared nowhere else."""
    if not isinstance(value, griffe.Expr):
        return str(value)
    parts = []
    for part in value.iterate(flat=True):
        constant = _constant(part) if isinstance(part, griffe.ExprName) else None
        if constant is None or constant.path in inside:
            parts.append(str(part))
        else:
            parts.append(_meant(constant.value, inside | {constant.path}))
    return "".join(parts)


def _constant(name: griffe.ExprName) -> griffe.Attribute | None:
    """Return the constant of a module that a name stands for, unless it is public itself."""
    home = name.parent
    while isinstance(home, griffe.ExprName):
        home = home.parent
    if not isinstance(home, griffe.Object):
        return None
    try:
        found = _target(home.modules_collection[name.canonical_path])
    except (KeyError, griffe.AliasResolutionError):
        return None  # a name of another distribution, or a builtin
    if not isinstance(found, griffe.Attribute) or found.value is None or found.parent is None:
        return None
    public = any(alias.is_public for alias in found.aliases.values())
    return found if found.parent.is_module and not public else None


def _classes(old: griffe.Class, new: griffe.Class, place: str) -> Iterator[str]:
    yield from _changed(place, "bases changed", _listed(old.bases), _listed(new.bases))
    for name in sorted((old.keywords.keys() | new.keywords.keys()) - _UNSEEN):
        values = (one.keywords.get(name) for one in (old, new))
        yield from _changed(place, f"{name} changed", *values)
    yield from _changed(place, "decorators changed", _decorators(old), _decorators(new))
    for name in sorted(_abstract(new) - _abstract(old)):
        yield f"{place}.{name}: has to be given by subclasses now"
    added = _public(new).keys() - _public(old).keys()
    for name in sorted(added):
        member = _target(new.all_members[name])
        if _is_a(new, "enum.") and isinstance(member, griffe.Attribute):
            yield f"{place}.{name}: is a new member of an enum"
        elif _is_a(new, "typing.Protocol"):
            yield f"{place}.{name}: is a new member of a protocol"
        elif isinstance(member, griffe.Attribute) and _is_required(member):
            yield f"{place}.{name}: is new and has no default"
        elif isinstance(member, griffe.Attribute) and name[:2] == "__" and member.value == "None":
            yield f"{place}.{name}: is taken away"
        elif isinstance(member, griffe.Function) and name in _MADE_BY:
            required = [one.name for one in list(member.parameters)[1:] if one.required]
            if required:
                yield f"{place}.{name}: is new and requires {_listed(required)}"


def _decorators(thing: griffe.Class | griffe.Function) -> str:
    names = ((one.callable_path.rpartition(".")[2], one.value) for one in thing.decorators)
    return _listed([value for name, value in names if name not in _HARMLESS])


def _abstract(kind: griffe.Class) -> set[str]:
    """Return what subclasses have to give, under private names too."""
    members = ((name, _target(member)) for name, member in kind.all_members.items())
    return {name for name, member in members if member and "abstractmethod" in member.labels}


def _is_required(member: griffe.Attribute) -> bool:
    """Whether a class leaves an attribute open: a field to be given, or a subclass's duty."""
    is_open = member.annotation is not None and member.value is None
    return is_open and "property" not in member.labels


def _is_a(kind: griffe.Class, start: str) -> bool:
    """Whether a class or one of its bases derives from what has such a name."""
    names = [getattr(base, "canonical_path", str(base)) for base in kind.bases]
    return any(name.startswith(start) for name in names) or any(
        _is_a(base, start) for base in kind.resolved_bases if isinstance(base, griffe.Class)
    )


def _functions(old: griffe.Function, new: griffe.Function, place: str) -> Iterator[str]:
    yield from _changed(place, "return type changed", old.returns, new.returns)
    yield from _changed(place, "sort changed", sorted(old.labels), sorted(new.labels))
    yield from _changed(place, "decorators changed", _decorators(old), _decorators(new))
    if old.overloads or new.overloads:
        yield from _changed(place, "overloads changed", _overloads(old), _overloads(new))
    for parameter in old.parameters:
        if parameter.name in new.parameters:
            types = (parameter.annotation, new.parameters[parameter.name].annotation)
            yield from _changed(f"{place}({parameter.name})", "type changed", *types)
            defaults = [one.parameters[parameter.name].default for one in (old, new)]
            if str(defaults[0]) == str(defaults[1]):  # or griffe says so
                yield from _changed(f"{place}({parameter.name})", "default changed", *defaults)


def _overloads(function: griffe.Function) -> str:
    return _listed([one.signature(return_type=True) for one in function.overloads or ()])


def _attributes(
    old: griffe.Attribute, new: griffe.Attribute, place: str, *, ours: bool
) -> Iterator[str]:
    yield from _changed(place, "type changed", old.annotation, new.annotation)
    sorts = (old.labels & _SORTS, new.labels & (_SORTS - (_GAINS - old.labels)))
    yield from _changed(place, "sort changed", *map(sorted, sorts))
    # A default may be added to a field; nothing else about values may change.
    if old.value is not None or ours:
        yield from _changed(place, "value changed", old.value, new.value)


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values)) or "none"


def check(package: str, accepted: dict[str, str]) -> list[str]:
    """Say what is wrong with a package's API, after printing what it was compared with."""
    known = releases(package)
    if not known:
        return [f"{change}: is accepted, but there is no release" for change in accepted]
    last = known[-1]
    with tempfile.TemporaryDirectory() as scratch:
        found = breaking_changes(package, unpack(last, Path(scratch)) / "src")
    wrong = [f"{change}: is accepted in {ACCEPTED.name}, but is no change any more; remove it"
             for change in accepted if change not in found]  # fmt: skip
    new = [change for change in found if change not in accepted]
    print(f"notarius-{package}: compared with {last.version}, {len(new)} breaking changes")
    if new and may_break(package, last.version):
        print("".join(f"  {change}\n" for change in new), end="")
        return wrong
    remedy = (
        f"breaks who pins {last.version}; take it back, or tell of it in "
        f"packages/{package}/changelog.d/+TITLE.breaking.md"
    )
    return [*wrong, *(f"{change}: {remedy}" for change in new)]


def main() -> int:
    """Compare all packages; print every problem and return the exit status."""
    accepted = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))
    if unknown := accepted.keys() - set(PACKAGES):
        sys.exit(f"{ACCEPTED.name}: there is no package {', '.join(sorted(unknown))}")
    try:
        wrong = [problem for name in PACKAGES for problem in check(name, accepted.get(name, {}))]
        unreleased = [name for name in PACKAGES if not releases(name)]
        why = ", as far as this clone goes back: git fetch --unshallow" if is_shallow() else ""
    except GitError as error:
        sys.exit(f"NOT COMPARED: {error}")
    if unreleased:
        print(f"NOT COMPARED: nothing is released of {', '.join(unreleased)}{why}")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
