"""NPC, item and location registries: typed candidates and entries, rules, and normalizers."""

from notarius.registries._currency import STANDARD_COINAGES, Coinage, Currency, CurrencyRules
from notarius.registries._distinct import MarkAxis, MarkKind, MarkRules
from notarius.registries._entities import (
    Candidate,
    Entry,
    ItemCandidate,
    ItemEntry,
    ItemKind,
    LocationCandidate,
    LocationEntry,
    NpcCandidate,
    NpcEntry,
    Registry,
    RegistryKind,
)
from notarius.registries._normalize import (
    INVALID_OUTPUT,
    UNSAFE_GROUPS,
    ItemNormalizer,
    LocationNormalizer,
    NpcNormalizer,
    RegistryNormalizer,
    registry_fingerprint,
)
from notarius.registries._rules import (
    CURRENCY_GUIDANCE,
    ItemRules,
    LocationRules,
    NpcRules,
    RegistryRules,
)

__all__ = [
    "CURRENCY_GUIDANCE",
    "INVALID_OUTPUT",
    "STANDARD_COINAGES",
    "UNSAFE_GROUPS",
    "Candidate",
    "Coinage",
    "Currency",
    "CurrencyRules",
    "Entry",
    "ItemCandidate",
    "ItemEntry",
    "ItemKind",
    "ItemNormalizer",
    "ItemRules",
    "LocationCandidate",
    "LocationEntry",
    "LocationNormalizer",
    "LocationRules",
    "MarkAxis",
    "MarkKind",
    "MarkRules",
    "NpcCandidate",
    "NpcEntry",
    "NpcNormalizer",
    "NpcRules",
    "Registry",
    "RegistryKind",
    "RegistryNormalizer",
    "RegistryRules",
    "registry_fingerprint",
]


def __getattr__(name: str) -> str:
    """Read `__version__` from the installed metadata, only when someone asks."""
    if name == "__version__":
        from importlib.metadata import version as _version  # noqa: PLC0415 - takes long to import

        return _version("notarius-registries")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
