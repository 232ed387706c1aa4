"""The application: candidate files in, registries out, and the `notarius` command."""

from importlib.metadata import version as _version

from notarius.pipeline._campaign import Config
from notarius.pipeline._diff import diff
from notarius.pipeline._errors import ExitStatus, InputError
from notarius.pipeline._models import BackendFactory
from notarius.pipeline._reconcile import Settings, Summary, reconcile
from notarius.pipeline._report import Reported, report
from notarius.pipeline._run import RunSettings, RunSummary, check_campaign, run_campaign
from notarius.pipeline._similarity_backend import SimilarityBackend
from notarius.pipeline._verify import verify

__all__ = [
    "BackendFactory",
    "Config",
    "ExitStatus",
    "InputError",
    "Reported",
    "RunSettings",
    "RunSummary",
    "Settings",
    "SimilarityBackend",
    "Summary",
    "check_campaign",
    "diff",
    "reconcile",
    "report",
    "run_campaign",
    "verify",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        return _version("notarius-pipeline")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
