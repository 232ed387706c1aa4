"""Executors by name: processes of this machine, or a Dask cluster."""

import concurrent.futures
import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from notarius.pipeline._errors import InputError

DASK: Final = "dask://"
PROCESSES: Final = "processes"
PROCESSES_MAX: Final = 61
"""Windows can't wait for more."""
CONNECT_TIMEOUT_S: Final = 10


@contextlib.contextmanager
def open_executor(
    name: str, at_once: int | None = None
) -> Iterator[tuple[concurrent.futures.Executor, int]]:
    """Open the executor of this name, and close it at the end; say how much it works on at once.

    That is `at_once` if given, else one for each processor, or each thread of a cluster's workers.
    `dask://HOST:PORT` is the scheduler of a Dask cluster whose workers have this package and what
    the model needs. Raises `InputError` if there is no such executor or it can't be reached.
    """
    if name == PROCESSES:
        workers = min(at_once or os.cpu_count() or 1, PROCESSES_MAX)
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            yield pool, workers
    elif name.startswith(DASK):
        with _dask(name.removeprefix(DASK)) as (executor, threads):
            yield executor, at_once or threads
    else:
        raise InputError(f"--executor: use `{PROCESSES}` or `{DASK}HOST:PORT`, or leave it out")


@contextlib.contextmanager
def _dask(address: str) -> Iterator[tuple[concurrent.futures.Executor, int]]:
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(
            "--executor dask: needs more packages; pip install 'notarius-pipeline[dask]'"
        ) from None
    try:
        client: Any = Client(f"tcp://{address}", timeout=CONNECT_TIMEOUT_S, set_as_default=False)  # type: ignore[no-untyped-call]  # it has none
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--executor: no Dask scheduler answers at {address} ({type(error).__name__}); "
            "start one, or mend the address"
        ) from None
    with client, client.get_executor() as executor:
        yield executor, sum(client.ncores().values()) or 1  # perhaps the workers are still coming
