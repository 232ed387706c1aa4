"""Test helpers for users: a scripted producer, a fake clock, and conformance suites.

The strategies in `testing.strategies` need hypothesis; nothing here does.
"""

from notarius.attempts.testing._conformance import (
    AsyncProducerConformance,
    NormalizerConformance,
    ProducerConformance,
)
from notarius.attempts.testing._scripted import (
    FakeClock,
    JsonObjectContract,
    ScriptedProducer,
    ScriptExhaustedError,
    Step,
    Turn,
)

__all__ = [
    "AsyncProducerConformance",
    "FakeClock",
    "JsonObjectContract",
    "NormalizerConformance",
    "ProducerConformance",
    "ScriptExhaustedError",
    "ScriptedProducer",
    "Step",
    "Turn",
]
