"""The `notarius` command: options in, `reconcile` called, results told."""

import contextlib
import enum
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.markup import escape

from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.contracts import (
    AttemptCause,
    FailureKind,
    NotariusError,
    ProducerRequest,
    canonical_json,
)
from notarius.pipeline._errors import ExitStatus, InputError
from notarius.pipeline._models import SIMILARITY, ModelChoice, Models
from notarius.pipeline._reconcile import FAILED_RECEIPT, Settings, Summary, reconcile

__all__ = ["app", "main"]

app = typer.Typer(
    name="notarius",
    help="Turn candidates extracted from tabletop-game sessions into registries without "
    "duplicates. Nothing that goes in is ever lost.",
    no_args_is_help=True,
    # A traceback with local variables could print texts of a model.
    pretty_exceptions_enable=False,
)

_LEVELS: Final = ("DEBUG", "INFO", "WARNING")
_CAUSES: Final = {
    AttemptCause.INITIAL: "asking",
    AttemptCause.STRUCTURAL_RETRY: "asking again, the last answer could not be read",
    AttemptCause.MODULE_RETRY: "asking again",
    AttemptCause.CORRECTIVE_RETRY: "asking for a corrected answer",
}


class RegistryOption(enum.StrEnum):
    """The values of `--registry`."""

    NPC = "npc"
    ITEM = "item"
    LOCATION = "location"


class FormatOption(enum.StrEnum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer passes the flag's value
    if wanted:
        typer.echo(f"notarius {version('notarius-pipeline')}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command(
    name="reconcile",
    epilog="Example: notarius reconcile --registry npc candidates.jsonl --out registries/npc",
)
def reconcile_command(  # noqa: PLR0913, PLR0917 - the options of the command
    candidates: Annotated[
        Path,
        typer.Argument(metavar="CANDIDATES.jsonl", help="JSON Lines, one candidate a line."),
    ],
    registry: Annotated[RegistryOption, typer.Option(help="Which registry this is.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the output files.")],
    model: Annotated[
        str,
        typer.Option(
            metavar="similarity|openai:NAME|llama:FILE.gguf",
            help="Who is asked. `similarity` compares names, without model or network.",
        ),
    ] = SIMILARITY,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an OpenAI-compatible server.")
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="Environment variable that holds the server's key."),
    ] = None,
    normalize_retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Times to ask again after a refused answer.")
    ] = AttemptPolicy().normalize_retries,
    repair_retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Times to ask for readable JSON, an attempt.")
    ] = 1,
    transport_retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="Times to repeat a failed call, an attempt.")
    ] = 2,
    deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for the whole operation; no limit if left out."),
    ] = None,
    terminal: Annotated[
        TerminalPolicy,
        typer.Option(help="When all retries are spent: apply what is safe, or fail."),
    ] = TerminalPolicy.FALLBACK,
    debug_exchange: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write raw prompts and replies there (a folder for you alone)."
        ),
    ] = None,
    output_format: Annotated[
        FormatOption, typer.Option("--format", help="How the summary is printed.")
    ] = FormatOption.TEXT,
    quiet: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("--quiet", help="No summary and no progress.")
    ] = False,
) -> None:
    """Find duplicates among candidates and write the registry that results.

    Writes registry.json, warnings.json, receipt.json and manifest.json into DIR. Exit status:
    0 done, 2 bad input or usage, 3 retries spent with --terminal fail, 4 no answer from the
    model, 130 interrupted.
    """
    try:
        _set_log_level()
        choice = ModelChoice(name=model, base_url=base_url, api_key_env=api_key_env)
        if deadline is not None and not deadline > 0:
            raise InputError("--deadline: must be more than 0 seconds; leave it out for no limit")
        settings = Settings(
            registry=registry.value,
            candidates=candidates,
            out=out,
            model=model,
            policy=AttemptPolicy(
                normalize_retries=normalize_retries, terminal=terminal, deadline_s=deadline
            ),
            repair_retries=repair_retries,
            transport_retries=transport_retries,
            debug_exchange=debug_exchange,
        )
        with Models(choice) as models, _progress(settings, quiet=quiet) as starting:
            summary = reconcile(settings, backend=models.backend, starting=starting)
    except InputError as error:
        for line in str(error).splitlines():
            typer.echo(f"error: {_visible(line)}", err=True)
        raise typer.Exit(ExitStatus.BAD_INPUT) from None
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted: each file in {_visible(str(out))} is whole, the new one or the one "
            "before; run the same command to start again",
            err=True,
        )
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    except NotariusError as error:
        typer.echo(
            f"error: a fault in notarius ({type(error).__name__}): {_visible(str(error))}", err=True
        )
        raise typer.Exit(ExitStatus.FAULT) from None
    # The work is done: a reader of the summary who has gone away changes nothing about that.
    with contextlib.suppress(OSError):
        _tell(summary, output_format, quiet=quiet)
    raise typer.Exit(_status(summary))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        app(args=None if arguments is None else list(arguments))
        status = int(ExitStatus.DONE)
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(ExitStatus.BAD_INPUT)
    _flush()
    return status


def _flush() -> None:
    """Write out what is left, now: at the end of Python a closed pipe would change the status."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_log_level() -> None:
    level = os.environ.get("NOTARIUS_LOG") or "WARNING"
    if level not in _LEVELS:
        raise InputError(f"NOTARIUS_LOG: must be one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    # Ours alone, not the root: what a client's libraries log holds addresses and headers.
    log = logging.getLogger("notarius")
    log.handlers = [handler]
    log.setLevel(level)


@contextlib.contextmanager
def _progress(
    settings: Settings, *, quiet: bool
) -> Iterator[Callable[[ProducerRequest], None] | None]:
    """Show on a terminal what is being asked; nothing anywhere else."""
    # Not rich's idea of a terminal: FORCE_COLOR makes one of a file.
    if quiet or not sys.stderr.isatty():
        yield None
        return
    console = Console(stderr=True)
    most = settings.policy.normalize_retries + 1
    reading = f"{settings.registry}: reading {escape(repr(settings.candidates.name))}"
    with console.status(reading) as status:

        def starting(request: ProducerRequest) -> None:
            cause = _CAUSES[request.cause]
            status.update(
                f"{settings.registry}: attempt {request.number} of at most {most}, {cause}"
            )

        yield starting


def _tell(summary: Summary, output_format: FormatOption, *, quiet: bool) -> None:
    for warning in summary.warnings:
        typer.echo(f"warning: {warning.message}", err=True)
        for sample in warning.samples:
            typer.echo(f"  {sample}", err=True)
    if summary.failure is not None:
        kept = any(name.endswith(FAILED_RECEIPT) for name in summary.files)
        written = "the earlier one is unchanged" if kept else "there is none yet"
        typer.echo(
            f"error: {_sentence(summary.failure['message'])} No registry was written; {written}.",
            err=True,
        )
    if quiet:
        return
    if output_format is FormatOption.JSON:
        files = tuple(_utf8(name) for name in summary.files)
        typer.echo(canonical_json(replace(summary, out=_utf8(summary.out), files=files)).decode())
        return
    if summary.entries is not None:
        typer.echo(
            f"{summary.registry}: {_count(summary.candidates, 'candidate', 'candidates')}, "
            f"{_count(summary.entries, 'entry', 'entries')} "
            f"({summary.outcome.replace('_', ' ')}, "
            f"{_count(summary.attempts, 'attempt', 'attempts')}, model {summary.model})"
        )
    typer.echo(f"written: {_visible(', '.join(summary.files))}")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _sentence(text: str) -> str:
    """Begin with a capital and end with a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _visible(text: str) -> str:
    """Replace what a terminal would obey instead of show: a file can be named so."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _utf8(name: str) -> str:
    """Return a path as JSON can hold it: its bytes need not be UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def _status(summary: Summary) -> ExitStatus:
    if summary.failure is None:
        return ExitStatus.DONE if summary.entries is not None else ExitStatus.INTERRUPTED
    if summary.failure["kind"] == FailureKind.EXHAUSTED:
        return ExitStatus.EXHAUSTED
    return ExitStatus.PROVIDER
