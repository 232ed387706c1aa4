"""Completion in a shell, through what the shell itself runs."""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

SCRIPTS = Path(sysconfig.get_path("scripts"))
NOTARIUS = shutil.which("notarius", path=str(SCRIPTS)) or ""
BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(
    not NOTARIUS or os.name != "posix", reason="needs the installed command, and a POSIX shell"
)

COMMANDS = {"reconcile", "run", "check", "verify", "diff"}
# What is typed before the tab key, and what must be among the answers, or be all of them.
TYPED: dict[str, tuple[set[str], bool]] = {
    "notarius ": (COMMANDS, False),
    "notarius re": ({"reconcile"}, False),
    "notarius reconcile --": ({"--registry", "--out", "--model", "--terminal", "--format"}, False),
    "notarius run --exec": ({"--executor"}, True),
    "notarius reconcile --registry ": ({"npc", "item", "location"}, True),
    "notarius verify --format ": ({"text", "json"}, True),
    "notarius run campaign --terminal f": ({"fallback", "fail"}, True),
}


def require_answers(found: dict[str, set[str]]) -> None:
    """Require what each beginning is completed to."""
    assert found.keys() == TYPED.keys()
    for typed, (answers, whole) in TYPED.items():
        assert found[typed] == answers if whole else found[typed] >= answers, typed
        begun = typed.rpartition(" ")[2]
        assert all(answer.startswith(begun) for answer in found[typed]), typed


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which the shell finds the installed command."""
    return {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **more}


SESSION = """
eval "$(notarius --show-completion)"
complete -p notarius
while IFS= read -r line; do
    IFS=' ' read -r -a COMP_WORDS <<< "$line"
    [ "${line% }" = "$line" ] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _notarius_completion notarius
    printf '> %s\\n' "$line"
    printf '%s\\n' "${COMPREPLY[@]}"
done
"""


NEEDS_BASH = pytest.mark.skipif(not BASH, reason="needs bash")


@NEEDS_BASH
def test_bash_completes_what_is_typed() -> None:
    """Bash takes what `--show-completion` prints, and then completes commands and values."""
    done = subprocess.run(
        [BASH, "--norc", "-c", SESSION],
        input="".join(f"{typed}\n" for typed in TYPED),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    registered, *answered = re.split(r"^> (.*)\n", done.stdout, flags=re.MULTILINE)
    assert "-F _notarius_completion notarius" in registered
    pairs = zip(answered[::2], answered[1::2], strict=True)
    require_answers({typed: set(answers.split()) for typed, answers in pairs})


def test_zsh_is_given_the_answers() -> None:
    """What zsh evaluates lists the same, each with its help; its script asks for just that."""

    def notarius(**more: str) -> str:
        done = subprocess.run(
            [NOTARIUS],
            capture_output=True,
            text=True,
            env=environment(**more),
            timeout=120,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout

    script = notarius(_NOTARIUS_COMPLETE="source_zsh")
    assert "compdef _notarius_completion notarius" in script
    assert "_NOTARIUS_COMPLETE=complete_zsh" in script
    assert "_TYPER_COMPLETE_ARGS=" in script
    found = {}
    for typed in TYPED:
        said = notarius(_NOTARIUS_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=typed)
        assert said.startswith("_arguments '*: :((")
        found[typed] = set(re.findall(r'^(?:_arguments .*\(\()?"([^"]+)"', said, re.MULTILINE))
    require_answers(found)


@NEEDS_BASH
def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    """`--install-completion` changes files of the home folder alone, and says which."""
    done = subprocess.run(
        [BASH, "--norc", "-c", "notarius --install-completion; true"],
        capture_output=True,
        text=True,
        env=environment(HOME=str(tmp_path)),
        timeout=120,
        check=True,
    )
    assert "bash completion installed in" in done.stdout
    installed = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_NOTARIUS_COMPLETE=complete_bash" in path.read_text() for path in installed)
    assert any(str(path) in done.stdout.replace("\n", "") for path in installed)
