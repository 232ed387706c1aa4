"""Strategies and helpers that the tests of this package share."""

from collections.abc import Callable

import pytest
from hypothesis.strategies import SearchStrategy

from notarius.semanticreconcile import (
    Part,
    Proposal,
    TypedRefusal,
    request_ids,
)
from notarius.semanticreconcile.testing import strategies

LIVE = request_ids(9)
CANARY = "KANARI"


@pytest.fixture(scope="session")
def canary() -> str:
    """What every id contains that imitates something, in some case."""
    return CANARY


@pytest.fixture(scope="session")
def live() -> tuple[str, ...]:
    """The ids that are offered to the proposals below."""
    return LIVE


@pytest.fixture(scope="session")
def proposals() -> SearchStrategy[Proposal]:
    """Proposals about `live`, mostly of offered ids: safe and refused groups side by side."""
    return strategies.proposals(LIVE)


@pytest.fixture(scope="session")
def hostile_proposals() -> SearchStrategy[Proposal]:
    """Proposals about `live` with ids that imitate categories, headings and instructions."""
    unknown = strategies.near_miss_ids(LIVE) | strategies.imitating_ids(CANARY)
    return strategies.proposals(LIVE, unknown=unknown)


@pytest.fixture(scope="session")
def thirds() -> Callable[[tuple[str, ...]], TypedRefusal | None]:
    """A typed check: c3, c6 and c9 are coins, and coins go with nothing else."""

    def check(ids: tuple[str, ...]) -> TypedRefusal | None:
        coins = tuple(request_id for request_id in ids if int(request_id[1:]) % 3 == 0)
        rest = tuple(request_id for request_id in ids if request_id not in coins)
        if not coins or not rest:
            return None
        parts = (Part(label="gold coins", ids=coins), Part(label="not money", ids=rest, same=False))
        return TypedRefusal(reason="money and something else", parts=parts, domain_rule=True)

    return check
