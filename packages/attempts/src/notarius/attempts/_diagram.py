"""Draws the machine from its own transition table, so that the docs can't drift from it."""

from notarius.attempts._machine import TRANSITIONS, State


def mermaid_diagram() -> str:
    """Return the machine as a Mermaid state diagram, in a stable order."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.READY.value}"]
    lines.extend(
        f"    {source.value} --> {target.value}: {event.__name__}"
        for (source, event), targets in TRANSITIONS.items()
        for target in targets
    )
    lines.append(f"    {State.DONE.value} --> [*]")
    return "\n".join(lines) + "\n"
