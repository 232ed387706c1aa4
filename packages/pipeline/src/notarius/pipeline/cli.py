"""The `notarius` command: options in, one function of the package called, results told."""

import atexit
import contextlib
import enum
import gc
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import typer

from notarius.attempts import AttemptPolicy, TerminalPolicy
from notarius.contracts import FailureKind, NotariusError, ProcessWarning, canonical_json
from notarius.pipeline._campaign import Config
from notarius.pipeline._diff import diff, difference_lines
from notarius.pipeline._errors import ExitStatus, InputError
from notarius.pipeline._models import Models
from notarius.pipeline._progress import reconcile_progress, run_progress
from notarius.pipeline._reconcile import FAILED_RECEIPT, Settings, Summary, reconcile
from notarius.pipeline._report import REPORT, Reported, report
from notarius.pipeline._run import (
    CHECKPOINTS,
    SERVED_AT_ONCE,
    Plan,
    RunSettings,
    RunSummary,
    check_campaign,
    run_campaign,
)
from notarius.pipeline._shown import counted, json_text, visible
from notarius.pipeline._verify import verification_lines, verify

__all__ = ["app", "main"]

app: typer.Typer = typer.Typer(
    name="notarius",
    help="Turn candidates extracted from tabletop-game sessions into registries without "
    "duplicates. Nothing that goes in is ever lost.",
    no_args_is_help=True,
    # A traceback with local variables could print texts of a model.
    pretty_exceptions_enable=False,
)

_LEVELS: Final = ("DEBUG", "INFO", "WARNING")
_OBEYED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What JSON lets pass, and a terminal obeys."""


class RegistryOption(enum.StrEnum):
    """The values of `--registry`."""

    NPC = "npc"
    ITEM = "item"
    LOCATION = "location"


class FormatOption(enum.StrEnum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"


_Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="similarity|openai:NAME|llama:FILE.gguf",
        help="Who is asked. `similarity` (the default) compares names, without model or network.",
    ),
]
_BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of an OpenAI-compatible server.")
]
_ApiKeyEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="VAR", help="Environment variable that holds the server's key."),
]
_ContextTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Longest exchange that the model can take; a longer list is asked about in parts.",
    ),
]
_NormalizeRetries: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help=f"Times to ask again after a refused answer ({AttemptPolicy().normalize_retries}).",
    ),
]
_RepairRetries: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Times to ask for readable JSON, an attempt (1)."),
]
_TransportRetries: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Times to repeat a failed call, an attempt (2)."),
]
_Deadline: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Time for the whole operation; no limit if left out."),
]
_Terminal: TypeAlias = Annotated[
    TerminalPolicy | None,
    typer.Option(help="When all retries are spent: apply what is safe (the default), or fail."),
]
_RetryFallbacks: TypeAlias = Annotated[
    bool, typer.Option("--retry-fallbacks", help="Ask again where an earlier run fell back.")
]
_Debug: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write raw prompts and replies there (a folder for you alone)."
    ),
]
_Format: TypeAlias = Annotated[
    FormatOption, typer.Option("--format", help="How the result is printed.")
]
_Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No summary and no progress.")]


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
    model: _Model = None,
    base_url: _BaseUrl = None,
    api_key_env: _ApiKeyEnv = None,
    context_tokens: _ContextTokens = None,
    normalize_retries: _NormalizeRetries = None,
    repair_retries: _RepairRetries = None,
    transport_retries: _TransportRetries = None,
    deadline: _Deadline = None,
    terminal: _Terminal = None,
    debug_exchange: _Debug = None,
    output_format: _Format = FormatOption.TEXT,
    quiet: _Quiet = False,  # noqa: FBT002 - typer makes a flag of it
) -> None:
    """Find duplicates among candidates and write the registry that results.

    Writes registry.json, warnings.json, receipt.json and manifest.json into DIR. Exit status:
    0 done, 2 bad input or usage, 3 retries spent with --terminal fail, 4 no answer from the
    model, 130 interrupted.
    """
    with _told(out, "start again", output_format, quiet=quiet):
        options = _options(
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            context_tokens=context_tokens,
            normalize_retries=normalize_retries,
            repair_retries=repair_retries,
            transport_retries=transport_retries,
            deadline=deadline,
            terminal=terminal,
        )
        choice = options.choice()
        budgets = options.budgets()
        settings = Settings(
            registry=registry.value,
            candidates=candidates,
            out=out,
            model=choice.name,
            policy=budgets.policy,
            repair_retries=budgets.repair_retries,
            transport_retries=budgets.transport_retries,
            context_tokens=context_tokens,
            debug_exchange=debug_exchange,
        )
        most = budgets.policy.normalize_retries + 1
        with (
            Models(choice) as models,
            reconcile_progress(registry.value, candidates, most, quiet=quiet) as starting,
        ):
            summary = reconcile(settings, backend=models.backend, starting=starting)
    # The work is done: a reader of the summary who has gone away changes nothing about that.
    with contextlib.suppress(OSError):
        _tell(summary, output_format, quiet=quiet)
    raise typer.Exit(_status(summary))


@app.command(
    name="run",
    epilog="Example: notarius run campaign/ --out registries/ --model openai:qwen2.5 "
    "--base-url http://127.0.0.1:8080/v1",
)
def run_command(  # noqa: PLR0913, PLR0917 - the options of the command
    campaign: Annotated[
        Path,
        typer.Argument(
            metavar="CAMPAIGN",
            help="Folder with npc.jsonl, item.jsonl and location.jsonl (any of them).",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Folder for the output folders.")],
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Where results are remembered; OUT/{CHECKPOINTS} if left out."
        ),
    ] = None,
    retry_fallbacks: _RetryFallbacks = False,  # noqa: FBT002 - typer makes a flag of it
    model: _Model = None,
    base_url: _BaseUrl = None,
    api_key_env: _ApiKeyEnv = None,
    context_tokens: _ContextTokens = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"Requests at a time ({SERVED_AT_ONCE} for a server, else 1; with --executor one "
            "for each processor, or each thread of the cluster's workers).",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="processes|dask://HOST:PORT",
            help="Who asks: processes of this machine, or the workers of a Dask cluster.",
        ),
    ] = None,
    normalize_retries: _NormalizeRetries = None,
    repair_retries: _RepairRetries = None,
    transport_retries: _TransportRetries = None,
    deadline: _Deadline = None,
    terminal: _Terminal = None,
    debug_exchange: _Debug = None,
    output_format: _Format = FormatOption.TEXT,
    quiet: _Quiet = False,  # noqa: FBT002 - typer makes a flag of it
) -> None:
    """Reconcile all registries of a campaign; what has not changed is not asked again.

    A file notarius.toml in the campaign may name model, budgets and coins; options win. Writes
    OUT/npc/, OUT/item/ and OUT/location/ with the files of `notarius reconcile`, and a receipt
    and a manifest over all. Exit status: as for `notarius reconcile`, the worst of all registries.
    """
    with _told(out, "go on where this run was stopped", output_format, quiet=quiet):
        options = _options(
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            context_tokens=context_tokens,
            at_once=at_once,
            normalize_retries=normalize_retries,
            repair_retries=repair_retries,
            transport_retries=transport_retries,
            deadline=deadline,
            terminal=terminal,
        )
        settings = RunSettings(
            campaign=campaign,
            out=out,
            options=options,
            checkpoints=checkpoints,
            retry_fallbacks=retry_fallbacks,
            executor=executor,
            debug_exchange=debug_exchange,
        )
        with run_progress(quiet=quiet) as watcher:
            summary = run_campaign(settings, watcher=watcher)
    with contextlib.suppress(OSError):
        _tell_run(summary, output_format, quiet=quiet)
    raise typer.Exit(_worst(map(_status, summary.registries)))


@app.command(name="check", epilog="Example: notarius check campaign/ --context-tokens 8192")
def check_command(  # noqa: PLR0913, PLR0917 - the options of the command
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="Folder of the campaign.")],
    checkpoints: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Tell which requests this file answers already."),
    ] = None,
    retry_fallbacks: _RetryFallbacks = False,  # noqa: FBT002 - typer makes a flag of it
    model: _Model = None,
    base_url: _BaseUrl = None,
    api_key_env: _ApiKeyEnv = None,
    context_tokens: _ContextTokens = None,
    normalize_retries: _NormalizeRetries = None,
    repair_retries: _RepairRetries = None,
    terminal: _Terminal = None,
    output_format: _Format = FormatOption.TEXT,
) -> None:
    """Check all files of a campaign, and say what a run would ask; no model is needed."""
    with _told(campaign, "start again", output_format):
        options = _options(
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            context_tokens=context_tokens,
            normalize_retries=normalize_retries,
            repair_retries=repair_retries,
            terminal=terminal,
        )
        plan = check_campaign(
            campaign, options=options, checkpoints=checkpoints, retry_fallbacks=retry_fallbacks
        )
    with contextlib.suppress(OSError):
        _print(plan, _plan_lines(plan), output_format)


@app.command(name="verify", epilog="Example: notarius verify registries/")
def verify_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder of an earlier run.")],
    output_format: _Format = FormatOption.TEXT,
) -> None:
    """Compute all digests of an output folder again, and say what does not match.

    Exit status: 0 all matches, 2 something does not.
    """
    with _told(out, "start again", output_format):
        found = verify(out)
    with contextlib.suppress(OSError):
        _print(found, verification_lines(found), output_format)
    raise typer.Exit(ExitStatus.DONE if found.ok else ExitStatus.BAD_INPUT)


@app.command(name="report", epilog="Example: notarius report registries/ --candidates campaign/")
def report_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder of an earlier run.")],
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Where to write it; OUT/{REPORT} if left out."),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The campaign's folder, or the candidate file of one registry: "
            "merged candidates are then shown as they were.",
        ),
    ] = None,
    output_format: _Format = FormatOption.TEXT,
) -> None:
    """Write one HTML file about an output folder, to look at in any browser.

    It shows what was merged and on what evidence, what was refused and why, every attempt, and
    whether the files match. It needs no network and holds no text of a model.
    """
    with _told(out, "start again", output_format):
        done = report(out, html=html, candidates=candidates)
    with contextlib.suppress(OSError):
        _tell_report(done, output_format)


@app.command(name="diff", epilog="Example: notarius diff registries-may/ registries-june/")
def diff_command(
    before: Annotated[Path, typer.Argument(metavar="OUT_A", help="Output folder of one run.")],
    after: Annotated[Path, typer.Argument(metavar="OUT_B", help="Output folder of another run.")],
    output_format: _Format = FormatOption.TEXT,
) -> None:
    """Say which entries merged, split, appeared or vanished between two runs."""
    with _told(before, "start again", output_format):
        found = diff(before, after)
    with contextlib.suppress(OSError):
        _print(found, difference_lines(found), output_format)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    if arguments is None:  # the whole process is ours, and what it holds ends with it
        atexit.register(gc.freeze)  # to look through it all once more takes long on a busy machine
    # Names may have letters that the encoding of a terminal or of redirected output lacks.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # suppressed
    try:
        app(args=None if arguments is None else list(arguments))
        status = int(ExitStatus.DONE)
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(ExitStatus.BAD_INPUT)
    _flush()
    return status


def _options(**said: object) -> Config:
    """Return what the options say. Raises `InputError` on a value that can't be."""
    _set_log_level()
    try:
        return Config(**said)  # type: ignore[arg-type]  # typer has checked the types
    except ValueError as error:
        raise InputError(f"--{error}; leave it out for the usual") from None


@contextlib.contextmanager
def _told(
    out: Path,
    again: str,
    output_format: FormatOption,
    *,
    quiet: bool = False,
) -> Iterator[None]:
    """Turn what the package raises into a line for a person, and an object for a program."""
    try:
        yield
    except InputError as error:
        said = [f"error: {visible(line)}" for line in str(error).split("\n")]
        ended, status = _no_summary("bad_input", str(error)), ExitStatus.BAD_INPUT
    except KeyboardInterrupt:
        interrupted = (
            f"interrupted: each file in {visible(str(out))} is whole, the new one or the one "
            f"before; run the same command to {again}"
        )
        said = [interrupted]
        ended, status = {"outcome": "cancelled", "failure": None}, ExitStatus.INTERRUPTED
    except NotariusError as error:
        fault = f"a fault in notarius ({type(error).__name__}): {error}"
        said = [f"error: {visible(fault)}"]
        ended, status = _no_summary("fault", fault), ExitStatus.FAULT
    else:
        return
    with contextlib.suppress(OSError):  # nobody can be told; the status tells
        for line in said:
            typer.echo(line, err=True)
    if output_format is FormatOption.JSON and not quiet:
        with contextlib.suppress(OSError):
            _print(ended, (), output_format)
    raise typer.Exit(status)


def _no_summary(kind: str, message: str) -> dict[str, object]:
    """Return what stands for the summary of a command that came to none."""
    failure = {"kind": kind, "code": kind, "message": message}
    return {"outcome": "failed", "failure": failure}


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


def _print(value: object, lines: Sequence[str], output_format: FormatOption) -> None:
    if output_format is FormatOption.JSON:
        text = canonical_json(_utf8_in(msgspec.to_builtins(value))).decode()
        text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        typer.echo(text.encode())  # UTF-8, whatever the locale
        return
    for line in lines:
        typer.echo(line)


def _tell(summary: Summary, output_format: FormatOption, *, quiet: bool) -> None:
    _warn(summary.warnings)
    _complain(summary)
    if quiet:
        return
    lines = [] if summary.entries is None else [_line(summary)]
    _print(summary, [*lines, f"written: {visible(', '.join(summary.files))}"], output_format)


def _tell_run(summary: RunSummary, output_format: FormatOption, *, quiet: bool) -> None:
    for registry in summary.registries:
        _warn(registry.warnings, f"{registry.registry}: ")
        _complain(registry, f"{registry.registry}: ")
    if quiet:
        return
    lines = [_line(registry) for registry in summary.registries if registry.entries is not None]
    lines.append(
        f"{counted(summary.asked, 'request', 'requests')} made now, "
        f"{summary.remembered} known from {visible(summary.checkpoints)}"
    )
    lines.append(f"written: {visible(summary.out)}")
    _print(summary, lines, output_format)


def _tell_report(done: Reported, output_format: FormatOption) -> None:
    if done.problems:
        problems = counted(done.problems, "problem", "problems")
        typer.echo(f"warning: {problems} in these results; the report says which", err=True)
    _print(done, [f"written: {visible(done.file)}"], output_format)


def _plan_lines(plan: Plan) -> list[str]:
    lines = []
    for planned in plan.registries:
        known = f", {planned.remembered} of them known" if planned.remembered else ""
        lines.append(
            f"{planned.registry}: {counted(planned.candidates, 'candidate', 'candidates')} in "
            f"{counted(len(planned.files), 'file', 'files')}, "
            f"{counted(planned.requests, 'request', 'requests')}{known}; "
            f"{planned.prompt_bytes:,} bytes of prompts, "
            f"the largest {planned.largest_prompt_bytes:,}"
        )
    limit = "no limit" if plan.context_tokens is None else f"{plan.context_tokens:,} tokens"
    lines.append(f"model {visible(plan.model)}, longest exchange: {limit}")
    return lines


def _warn(warnings: Sequence[ProcessWarning], where: str = "") -> None:
    for warning in warnings:
        typer.echo(f"warning: {where}{warning.message}", err=True)
        for sample in warning.samples:
            typer.echo(f"  {sample}", err=True)


def _complain(summary: Summary, where: str = "") -> None:
    if summary.entries is not None:
        return
    what = "finished" if summary.attempts else "begun"
    said = f"Not {what}, since another registry failed; the same command goes on with it."
    if summary.failure is not None:
        said = _sentence(summary.failure["message"])
    kept = any(name.endswith(FAILED_RECEIPT) for name in summary.files)
    written = "the earlier one is unchanged" if kept else "there is none yet"
    typer.echo(
        f"error: {where}{said} No registry was written; {written}.",
        err=True,
    )


def _line(summary: Summary) -> str:
    return (
        f"{summary.registry}: {counted(summary.candidates, 'candidate', 'candidates')}, "
        f"{counted(summary.entries or 0, 'entry', 'entries')} "
        f"({summary.outcome.replace('_', ' ')}, "
        f"{counted(summary.attempts, 'attempt', 'attempts')}, model {visible(summary.model)})"
    )


def _sentence(text: str) -> str:
    """Begin with a capital and end with a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _utf8_in(value: object) -> object:
    """Make all texts in plain data such as JSON can hold."""
    match value:
        case str():
            return json_text(value)
        case list() | tuple():
            return [_utf8_in(item) for item in value]
        case dict():
            return {key: _utf8_in(item) for key, item in value.items()}
        case _:
            return value


def _worst(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the highest; a registry that was not begun since another failed says nothing."""
    found = set(statuses)
    return max(found - {ExitStatus.INTERRUPTED, ExitStatus.DONE} or found)


def _status(summary: Summary) -> ExitStatus:
    if summary.failure is None:
        return ExitStatus.DONE if summary.entries is not None else ExitStatus.INTERRUPTED
    if summary.failure["kind"] == FailureKind.EXHAUSTED:
        return ExitStatus.EXHAUSTED
    return ExitStatus.PROVIDER
