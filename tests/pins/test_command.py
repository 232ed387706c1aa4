"""The command line is an interface too: scripts call it. Prose is left out of account."""

import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.models import ArgumentInfo

from notarius.contracts import canonical_json
from notarius.pipeline import ExitStatus, cli
from notarius.pipeline.cli import app

COMMANDS: dict[str, Callable[..., object]] = {
    str(command.name): command.callback
    for command in app.registered_commands
    if command.callback is not None
}
WORDS = {bool: "flag", float: "decimal", int: "number", str: "text"}


def values(kind: Any) -> object:  # noqa: ANN401 - a type, or a union
    """Return what an option takes: the choices of an enum, else the kind of value."""
    if isinstance(kind, types.UnionType):  # with `None`, for an option that is left out
        (kind,) = (part for part in kind.__args__ if part is not types.NoneType)
    if issubclass(kind, enum.Enum):
        return [member.value for member in kind]
    return WORDS.get(kind, kind.__name__.lower())


def shape(function: Callable[..., object]) -> dict[str, str]:
    """Return what a caller relies on: each argument and option, what it takes, its default."""
    found: dict[str, str] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, info = typing.get_args(parameter.annotation)
        needed = parameter.default is inspect.Parameter.empty
        called = f"--{name.strip('_').replace('_', '-')}"
        if isinstance(info, ArgumentInfo):
            called = f"argument {1 + sum(each.startswith('argument') for each in found)}"
        elif isinstance(info.default, str):  # typer takes a name given in the annotation for this
            called = info.default
        said = {"takes": values(kind), "least": info.min, "most": info.max}
        if not needed:
            said["default"] = parameter.default
        found[called] = canonical_json(said).decode()
    return found


def test_commands_and_options_stay_as_they_are(snapshot: SnapshotAssertion) -> None:
    """A script that calls the command goes on working: names, defaults, choices, bounds."""
    assert {name: shape(function) for name, function in COMMANDS.items()} == snapshot


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_has_these_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is compared above is what the command itself offers."""
    assert cli.main([name, "--help"]) == 0
    help_text = capsys.readouterr().out
    options = [option for option in shape(COMMANDS[name]) if option.startswith("--")]
    assert options
    for option in options:
        assert f" {option} " in help_text.replace("\n", " "), option


def test_exit_statuses_stay_as_they_are() -> None:
    """A script that looks at the status goes on telling endings apart."""
    assert {status.name: status.value for status in ExitStatus} == {
        "DONE": 0,
        "FAULT": 1,
        "BAD_INPUT": 2,
        "EXHAUSTED": 3,
        "PROVIDER": 4,
        "INTERRUPTED": 130,
    }
