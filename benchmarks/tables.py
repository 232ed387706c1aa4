"""Prints the results of repair.py as tables, with 95 % intervals.

    python -m benchmarks.tables RESULTS.jsonl ...

Shares have Wilson intervals. Sums of pairs and F1 have percentile bootstrap intervals over the
exchanges (9,999 resamples, seed 1); so have differences between arms, which are paired: each arm
began with the same refused replies. F1 is that of all pairs of these lists together: twice the true
pairs by the sum of the pairs that were merged and those that are there.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from benchmarks.lists import Result, Turn
from scipy import stats

Column: TypeAlias = Callable[[Sequence[Turn]], float]
RESAMPLES: Final = 9_999


def main() -> None:
    """Print the tables of all files together."""
    results = [
        msgspec.json.decode(line, type=Result)
        for file in sys.argv[1:]
        for line in Path(file).read_bytes().splitlines()
    ]
    for model in sorted({result.model for result in results}):
        of_model = [result for result in results if result.model == model]
        print(f"## {model}\n")
        _first_replies(of_model)
        for subject in ("all", *sorted({result.subject for result in of_model})):
            refused = [r for r in of_model if r.arms and subject in {"all", r.subject}]
            if refused:
                _exchanges(subject, refused)


def _first_replies(results: Sequence[Result]) -> None:
    print("| prompt | lists | of | read and refused | unreadable | empty | true pairs | false |")
    print("|---|---|---|---|---|---|---|---|")
    for prompt, subject in sorted({(r.prompt, r.subject) for r in results}):
        found = [r for r in results if (r.prompt, r.subject) == (prompt, subject)]
        scores = [result.first.score for result in found]
        there = sum(score.there for score in scores)
        print(
            f"| {prompt} | {subject} | {len(found)} "
            f"| {sum(score.refused > 0 for score in scores)} "
            f"| {sum(score.structural is not None for score in scores)} "
            f"| {sum(score.structural is None and not score.groups for score in scores)} "
            f"| {_sum([score.true_pairs for score in scores])} of {there} "
            f"| {_sum([score.false_pairs for score in scores])} |"
        )
    print()


def _exchanges(subject: str, results: Sequence[Result]) -> None:
    arms = list(results[0].arms)
    most = max(len(turns) for result in results for turns in result.arms.values()) - 1
    print(f"### {subject}: {len(results)} refused replies\n")
    print(
        "| arm | retries | nothing refused | of these empty | unreadable at the end | same again "
        "| true pairs | false pairs | F1 | accepted alone: true / false | prompt tokens a reply |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    firsts = [result.first for result in results]
    print(
        f"| (first reply) | 0 | | | | | {_sum([t.score.true_pairs for t in firsts])} "
        f"| {_sum([t.score.false_pairs for t in firsts])} | {_f1([(t,) for t in firsts])} | | |"
    )
    for budget in range(1, most + 1):
        for arm in arms:
            print(_row(arm, budget, [result.arms[arm][: budget + 1] for result in results]))
    print()
    for budget in range(1, most + 1):
        for other in arms[1:]:
            _compare(arms[0], other, budget, results)
    print()


def _row(arm: str, budget: int, exchanges: Sequence[Sequence[Turn]]) -> str:
    last = [turns[-1].score for turns in exchanges]
    clean = [score.clean for score in last]
    empty = sum(score.clean and not score.groups for score in last)
    retries = [turn for turns in exchanges for turn in turns[1:]]
    tokens = [turn.prompt_tokens for turn in retries if turn.prompt_tokens is not None]
    accepted = [score for score in last if score.clean]
    cells = (
        arm,
        str(budget),
        _share(sum(clean), len(clean)),
        str(empty),
        str(sum(score.structural is not None for score in last)),
        f"{sum(turn.same for turn in retries)} of {len(retries)}",
        _sum([applied(turns).score.true_pairs for turns in exchanges]),
        _sum([applied(turns).score.false_pairs for turns in exchanges]),
        _f1(exchanges),
        f"{sum(s.true_pairs for s in accepted)} / {sum(s.false_pairs for s in accepted)}",
        f"{sum(tokens) / len(tokens):.0f}" if tokens else "",
    )
    return f"| {' | '.join(cells)} |"


def applied(turns: Sequence[Turn]) -> Turn:
    """Return the turn whose safe groups are applied: the latest that could be read."""
    return next(turn for turn in reversed(turns) if turn.score.structural is None)


def _compare(ours: str, other: str, budget: int, results: Sequence[Result]) -> None:
    sides = [[result.arms[arm][: budget + 1] for result in results] for arm in (ours, other)]
    scores = [[applied(turns).score for turns in side] for side in sides]
    cells = []
    for pairs in ("true_pairs", "false_pairs"):
        one, two = ([getattr(score, pairs) for score in side] for side in scores)
        differences = [a - b for a, b in zip(one, two, strict=True)]
        cells.append(f"{pairs.replace('_', ' ')} {_sum(differences, signed=True)}")
    cells.append(f"F1 {_f1(*sides)}")
    print(f"- {budget} retries, {ours} less {other}: {', '.join(cells)}")


def _f1(exchanges: Sequence[Sequence[Turn]], less: Sequence[Sequence[Turn]] = ()) -> str:
    """Return the F1 of the pairs that are merged at the end, or how much it is above another."""
    drawn = np.random.default_rng(1).integers(len(exchanges), size=(RESAMPLES, len(exchanges)))
    said, resampled = _f1_of(exchanges, drawn)
    form = ".2f"
    if less:
        others = _f1_of(less, drawn)
        said, resampled, form = said - others[0], resampled - others[1], "+.2f"
    low, high = np.percentile(resampled, (2.5, 97.5))
    return f"{said:{form}} [{low:{form}}, {high:{form}}]"


def _f1_of(
    exchanges: Sequence[Sequence[Turn]], drawn: npt.NDArray[np.int64]
) -> tuple[float, npt.NDArray[np.float64]]:
    scores = [applied(turns).score for turns in exchanges]
    right = np.array([2.0 * score.true_pairs for score in scores])
    all_pairs = np.array([float(s.true_pairs + s.false_pairs + s.there) for s in scores])
    # Lists without any pair have nothing to find, so that a draw of those alone is right.
    resampled = right[drawn].sum(axis=1) / np.maximum(all_pairs[drawn].sum(axis=1), 1)
    return right.sum() / max(all_pairs.sum(), 1), resampled


def _share(hits: int, of: int) -> str:
    found = stats.binomtest(hits, of).proportion_ci(method="wilson")
    return f"{hits} of {of}, {hits / of:.0%} [{found.low:.0%}, {found.high:.0%}]"


def _sum(values: Iterable[float], *, signed: bool = False) -> str:
    numbers = np.array(list(values), dtype=float)
    form = "+.0f" if signed else ".0f"
    said = f"{numbers.sum():{form}}"
    if len(numbers) < 2 or not numbers.std():  # noqa: PLR2004 - nothing to resample
        return said
    rng = np.random.default_rng(1)
    drawn = rng.choice(numbers, (RESAMPLES, len(numbers))).sum(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return f"{said} [{low:{form}}, {high:{form}}]"


if __name__ == "__main__":
    main()
