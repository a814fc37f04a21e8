"""Options, paths and settings of one command are told apart."""

import pytest

from xmc.commands.arguments import CommandParser, described
from xmc.config import leaves
from xmc.errors import SettingError
from xmc.settings import COMMANDS


@pytest.fixture
def parser():
    made = CommandParser("tag", "tags", "--docs F")
    made.files("--docs", required=True)
    made.file("--model", "-m")
    return made


ODD = ["/data/a=b,c#1/@x y.jsonl", "-", "a#b", "@file", "ships|boats 50%", "./top_k=5", "x,y", "قانون.tsv"]


@pytest.mark.parametrize("path", ODD)
def test_paths_pass_unharmed(parser, path):
    args = parser.read(["--docs", "first", path, "--model", path])
    assert args.docs == ["first", path]
    assert args.model == path
    assert args.assignments == []


def test_settings_may_stand_anywhere(parser):
    args = parser.read(["seed=1", "--docs", "a", "b", "top_k=5", "--model", "m", "threshold=.5"])
    assert args.docs == ["a", "b"]
    assert sorted(args.assignments) == ["seed=1", "threshold=.5", "top_k=5"]


def test_an_existing_file_named_like_a_setting_is_a_path(parser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "top_k=5").touch()
    assert parser.read(["--docs", "a", "top_k=5"]).docs == ["a", "top_k=5"]
    assert parser.read(["top_k=5", "--docs", "a"]).assignments == ["top_k=5"]


def test_bare_paths_where_a_command_takes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "language=x").touch()
    args = CommandParser("inspect", "looks", "PATH...").read(
        ["a", "-", "language=x", "encoding=latin-1"], paths=True
    )
    assert args.paths == ["a", "-", "language=x"]
    assert args.assignments == ["encoding=latin-1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--docs"], "--docs"),
        ([], "--docs F is missing"),
        (["--dosc", "a"], "did you mean --docs?"),
        (["--docs", "a", "-m", "x", "--model", "y"], "--model is given twice"),
        (["--docs", "a", "--modle", "x"], "did you mean --model?"),
        (["--docs", "a", "--top_k", "5"], "top_k=VALUE"),
        (["--docs", "a", "--top-k=5"], "top_k=5"),
        (["--docs", "a", "--mod", "x"], "unknown option --mod"),
        (["--docs", "a", "--model", "x", "stray"], "unexpected argument 'stray'"),
        (["--docs", "a", "--model", "x", "+top_k=5"], "unexpected argument"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(parser, arguments, message):
    with pytest.raises(SettingError) as caught:
        parser.read(arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("width", [60, 100])
def test_help_lists_every_setting_of_the_command(command, width):
    lines = described(COMMANDS[command], width).splitlines()
    heads = [line.split("=")[0].strip() for line in lines if line.startswith("  ") and line[2] != " "]
    assert set(leaves(COMMANDS[command])) <= set(heads)
    assert max(map(len, lines[1:])) <= width
