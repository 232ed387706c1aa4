"""What lies in a campaign's folder: every list is read or told, and so is every setting."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from notarius.pipeline import Config, InputError, check_campaign, cli
from notarius.pipeline._campaign import read_campaign

GOOD = '{"source_id": "a", "name": "Orla Venn"}\n'
Check = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A campaign with one list."""
    made = tmp_path / "campaign"
    made.mkdir()
    (made / "item.jsonl").write_text(GOOD)
    return made


@pytest.fixture
def check(folder: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `notarius check` over the campaign; return its status and what it said."""

    def command(*options: str) -> tuple[int, str]:
        status = cli.main(["check", str(folder), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return command


def put(folder: Path, name: str, text: str = GOOD) -> Path:
    """Write a file of the campaign."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# ------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("npcs.jsonl", "rename it npc.jsonl, or move it away"),
        ("NPC.jsonl", "rename it npc.jsonl, or move it away"),
        ("npc.JSONL", "rename it npc.jsonl, or move it away"),
        ("npc/a.JSONL", "rename it a.jsonl, or move it away"),
        ("npc/a.Jsonl", "rename it a.jsonl, or move it away"),
        ("session-1/npcs.jsonl", "rename it npc.jsonl, or move it away"),
        ("session-1/Location.jsonL", "rename it location.jsonl, or move it away"),
        ("NPC/a.jsonl", "rename it npc.jsonl, or move it away"),
        ("session-2/npc/a.jsonl", "it lies too deep: move it up to session-2, or away"),
        ("npc/old/a.jsonl", "it lies too deep: move it up to npc, or away"),
        ("sessions/session-3/npc.jsonl", "it lies too deep: move it up to sessions, or away"),
        ("a/b/c/d/npc.JSONL", "it lies too deep: move it up to a, or away"),
    ],
)
def test_a_file_that_would_be_left_out_is_told(
    folder: Path, check: Check, name: str, remedy: str
) -> None:
    """Beside good files too, a JSON Lines file that no registry would read is an error."""
    put(folder, "session-1/item.jsonl", GOOD.replace('"a"', '"b"'))
    path = put(folder, name)
    status, said = check()
    assert status == 2
    assert said == f"error: {path}: is for no registry; {remedy}\n"
    path.unlink()
    assert check()[0] == 0


@given(
    st.lists(st.sampled_from(["npc", "item", "session-1", "Npc", "x"]), max_size=3),
    st.sampled_from(["npc", "item", "location", "a", "NPC", "npcs"]),
    st.sampled_from([".jsonl", ".JSONL", ".jsonL"]),
)
def test_no_list_is_left_out_in_silence(
    tmp_path_factory: pytest.TempPathFactory, folders: list[str], stem: str, suffix: str
) -> None:
    """Wherever a list lies and however it is called, it is among the sources or it is told."""
    campaign = tmp_path_factory.mktemp("campaign")
    put(campaign, "first-session/location.jsonl")
    path = put(campaign, "/".join([*folders, stem + suffix]), GOOD.replace('"a"', '"b"'))
    try:
        named = [file for one in check_campaign(campaign).registries for file in one.files]
    except InputError as error:
        named = [problem.partition(": ")[0] for problem in error.problems]
    assert named.count(str(path)) == 1


@pytest.mark.parametrize(
    "name", ["npc.jsonl", "session-3/npc.jsonl", "npc/a.jsonl", "npc", "notarius.toml"]
)
def test_a_link_to_nowhere_is_told(folder: Path, check: Check, name: str) -> None:
    """A list or a setting that can't be reached is not one that is not there."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(folder / "nowhere")
    assert check() == (2, f"error: {path}: is a link to nowhere; mend it, or move it away\n")


def test_links_are_followed_and_do_not_go_round(folder: Path, check: Check, tmp_path: Path) -> None:
    """A list or a session may be a link; a link back to the campaign does not read for ever."""
    put(tmp_path, "elsewhere/npc.jsonl")
    (folder / "session-1").symlink_to(tmp_path / "elsewhere")
    (folder / "location.jsonl").symlink_to(tmp_path / "elsewhere" / "npc.jsonl")
    plan = check_campaign(folder)
    assert [one.registry for one in plan.registries] == ["npc", "item", "location"]
    (folder / "maps").mkdir()
    (folder / "maps" / "back").symlink_to(folder)
    assert check()[0] == 0


@pytest.mark.parametrize("name", ["._npc.jsonl", "npc/._a.jsonl", "session-1/._npc.jsonl"])
def test_hidden_files_are_looked_at_nowhere(folder: Path, check: Check, name: str) -> None:
    """What another system puts beside each file is no list."""
    path = put(folder, name)
    path.write_bytes(b"\x00\x05\x16\x07")
    put(folder, ".trash/npcs.jsonl")
    assert check()[0] == 0


def test_a_folder_with_the_name_of_a_list_is_told(folder: Path, check: Check) -> None:
    """It can't be read, and its content is not taken for a session's."""
    put(folder, "session-1/npc.jsonl/npc.jsonl")
    status, said = check()
    assert status == 2
    assert f"error: {folder / 'session-1' / 'npc.jsonl'}: can't be read" in said


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("base-url = 'http://127.0.0.1:9/v1'\n", "base-url", "is for a model `openai:NAME`"),
        ("model = 'gpt'\n", "model", "use `similarity`, `openai:NAME` or `llama:FILE.gguf`"),
        ("model = 'llama:/none.gguf'\n", "model", "no file /none.gguf"),
        ("model = 'openai:m'\nbase-url = 'x'\n", "base-url", "give an address such as"),
    ],
)
def test_a_setting_of_the_file_is_told_as_one(
    folder: Path, check: Check, text: str, key: str, said: str
) -> None:
    """The error names the file and the key, not an option that nobody has given."""
    (folder / "notarius.toml").write_text(text)
    status, told = check()
    assert status == 2
    assert told.startswith(f"error: {folder / 'notarius.toml'}: `{key}`: {said}")
    assert "--" not in told.removeprefix(f"error: {folder}")


def test_an_option_is_told_as_one(folder: Path, check: Check) -> None:
    """Also where the file has another value for it."""
    (folder / "notarius.toml").write_text("model = 'openai:m'\nbase-url = 'http://127.0.0.1:9'\n")
    status, said = check("--base-url", "nowhere")
    assert (status, said.partition(": give")[0]) == (2, "error: --base-url")


SERVED = "model = 'openai:m'\nbase-url = 'http://127.0.0.1:9/v1'\n"


@pytest.mark.parametrize("text", [SERVED, SERVED.partition("\n")[2]])
def test_a_model_of_another_kind_does_not_have_the_settings_of_the_file(
    folder: Path, check: Check, text: str
) -> None:
    """`--model similarity` works where the file describes a server, with its other settings."""
    (folder / "notarius.toml").write_text(f"{text}context-tokens = 5\nterminal = 'fail'\n")
    status, said = check("--model", "similarity")
    assert status == 0
    assert "model similarity, longest exchange: no limit" in said


def test_another_model_of_a_server_has_the_settings_of_the_file() -> None:
    """No prompt goes elsewhere because another model of the same server is named."""
    file = Config(model="openai:m", base_url="http://127.0.0.1:9/v1", context_tokens=8000)
    named = Config(model="openai:n").over(file)
    assert named == replace(file, model="openai:n")
    assert Config(model="llama:x.gguf").over(file) == Config(model="llama:x.gguf")
    assert Config(at_once=2).over(file) == replace(file, at_once=2)


# -------------------------------------------------------------------------------- keys


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two variables that hold something secret."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OTHER_KEY", "sk-other")


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize("key", ["api-key-env", "api_key_env"])
@pytest.mark.parametrize("server", ["", SERVED, "model = 'openai:m'\n"])
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"),
        ("--model", "openai:m", "--api-key-env", "OTHER_KEY"),
    ],
)
def test_a_file_can_not_choose_what_is_sent_as_a_key(
    folder: Path, check: Check, key: str, server: str, options: tuple[str, ...]
) -> None:
    """Not even to an address that the user named, which is not for each of the user's secrets."""
    (folder / "notarius.toml").write_text(f"{server}{key} = 'AWS_SECRET_ACCESS_KEY'\n")
    status, said = check(*options)
    assert status == 2
    line = server.count("\n") + 1
    assert said.startswith(f"error: {folder / 'notarius.toml'}, line {line}: `{key}`: a file can't")
    assert said.endswith("remove it there, and give --api-key-env\n")
    assert "AWS" not in said


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize("options", [(), ("--model", "openai:n"), ("--context-tokens", "9000")])
def test_a_key_is_not_sent_where_a_file_says(
    folder: Path, check: Check, options: tuple[str, ...]
) -> None:
    """The usual key is for the usual server: which other one gets it is said by the user."""
    (folder / "notarius.toml").write_text(SERVED)
    status, said = check(*options)
    assert status == 2
    assert said.startswith(
        f"error: {folder / 'notarius.toml'}: `base-url`: the key in OPENAI_API_KEY"
    )
    assert "secret" not in said
    assert check("--api-key-env", "OPENAI_API_KEY", *options)[0] == 0


CHOSEN = [
    ("model = 'openai:m'\n", (), "sk-secret"),
    ("", ("--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"), "sk-secret"),
    ("model = 'openai:m'\n", ("--base-url", "http://127.0.0.1:9/v1"), "sk-secret"),
    (SERVED, ("--base-url", "http://127.0.0.1:8/v1"), "sk-secret"),
    (SERVED, ("--base-url", "http://127.0.0.1:9/v1"), "sk-secret"),
    (SERVED, ("--api-key-env", "OPENAI_API_KEY"), "sk-secret"),
    (SERVED, ("--api-key-env", "OTHER_KEY"), "sk-other"),
    (SERVED, ("--api-key-env", "OTHER_KEY", "--base-url", "http://127.0.0.1:8/v1"), "sk-other"),
]


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize(("text", "options", "key"), CHOSEN)
def test_a_key_is_sent_where_the_user_says(
    folder: Path, text: str, options: tuple[str, ...], key: str
) -> None:
    """By the address or by the variable, and to the usual server without a word."""
    (folder / "notarius.toml").write_text(text)
    names = [name.removeprefix("--").replace("-", "_") for name in options[::2]]
    said = Config(**dict(zip(names, options[1::2], strict=True)))  # type: ignore[arg-type]  # all texts
    _, choice = read_campaign(folder).under(said)
    assert choice.key == key


def test_a_key_that_appears_later_is_not_sent_where_a_file_says(
    folder: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one of a worker, whose environment is another."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    (folder / "notarius.toml").write_text(SERVED)
    assert check()[0] == 0
    _, choice = read_campaign(folder).under(Config())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    there = pickle.loads(pickle.dumps(choice))  # noqa: S301 - what was just written
    assert (choice.key, there.key) == (None, None)
