"""Settings: composed from conf/, typed, checked, and never read as anybody's grammar."""

from dataclasses import asdict, is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.confdocs import groups, keys_of, summary_of
from xmc.config import choosable, composed, leaves, settings_of
from xmc.errors import SettingError
from xmc.index import kinds
from xmc.settings import COMMANDS, KINDS, RUNNERS, BuildSettings, TagSettings
from xmc.tag import runner

EVERY = {name: leaf for settings in COMMANDS.values() for name, leaf in leaves(settings).items()}
FILES = [("", "config"), *((group, name) for group, names in groups().items() for name in names)]


@pytest.mark.parametrize(("group", "name"), FILES)
def test_every_key_of_every_file_is_documented_and_read_by_a_command(group, name):
    for key, found in keys_of(group, name).items():
        assert key in EVERY, f"{group}/{name}.yaml: no command reads {key}"
        assert found.comment.endswith((".", ")")), f"{group}/{name}.yaml: no comment above {key}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_stands_in_a_default_file_with_the_default_of_its_dataclass(command):
    documented = {k for group, name in FILES if name in ("config", "default") for k in keys_of(group, name)}
    assert set(leaves(COMMANDS[command])) <= documented
    assert settings_of(command) == COMMANDS[command]()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_choice_of_every_group_composes(command):
    for group, names in choosable(leaves(COMMANDS[command])).items():
        for name in names:
            assert summary_of(group, name), f"{group}/{name}.yaml does not begin with what it is for"
            made = settings_of(command, [f"{group}={name}"])
            for key, found in keys_of(group, name).items():
                if key in leaves(COMMANDS[command]):
                    assert flat(made)[key] == EVERY[key].convert(found.value)


def flat(settings, prefix=""):
    found = {}
    for name, value in asdict(settings).items():
        if is_dataclass(getattr(settings, name)):
            inner = flat(getattr(settings, name))
            found |= inner | {f"{name}.{k}": v for k, v in inner.items()}
        else:
            found[name] = value
    return found


def test_the_composed_files_hold_nothing_that_no_command_reads():
    assert set(composed({})) <= set(EVERY)


def test_a_value_given_by_the_user_wins_over_the_preset():
    assert settings_of("index", ["preset=fast"]).encoder.dense == "none"
    assert settings_of("index", ["encoder.dense=x", "preset=fast"]).encoder.dense == "x"


LITERAL = [
    "a=b",
    "a,b",
    "a#b",
    "@x y",
    "${oc.env:HOME}",
    "???",
    "[1,2]",
    "{a: b}",
    "'q",
    '"',
    "~a",
    "null",
    " ",
]


@pytest.mark.parametrize("value", LITERAL)
def test_the_right_side_of_a_text_setting_is_taken_as_it_stands(value):
    assert settings_of("index", [f"encoder.dense={value}"]).encoder.dense == value


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1))
def test_any_text_survives(value):
    assert settings_of("index", [f"encoder.dense={value}"]).encoder.dense == value


def test_words_stand_for_values():
    tag = settings_of("tag", ["threshold=none", "threads=auto"])
    assert tag.threshold is None
    assert tag.run.threads is None
    with pytest.raises(SettingError, match="threads=0: wanted a whole number from 1"):
        settings_of("tag", ["threads=0"])
    assert settings_of("tag", ["threshold=null"]).threshold is None
    assert settings_of("tag", ["threshold=-1.5"]).threshold == -1.5
    assert settings_of("tag", ["top_k=auto"]).top_k is None
    assert settings_of("index", ["encoder.max_length=auto"]).encoder.max_length is None
    assert settings_of("eval", ["eval.ks=2,4"]).eval.ks == (2, 4)
    assert settings_of("eval", ["coerce=True"]).read.coerce is True


WRONG = [
    ("tag", "top_k=3.5", "a whole number"),
    ("tag", "top_k=-1", "from 0"),
    ("tag", "top_k=99999999999", "to 2147483647"),
    ("tag", "top_k=", "a whole number"),
    (
        "tag",
        "threshold=high",
        "a number, a rule (micro_f1, macro_f1, f1@K, precision=P, miss_rate=R) or none",
    ),
    ("tag", "threshold=nan", "or none"),
    ("tag", "threshold=precision=2", "above 0, at most 1"),
    ("tag", "threshold=miss_rate=1", "between 0 and 1"),
    ("tag", "threshold=f1@0", "a whole number K from 1 up"),
    ("tag", "threshold=micro_f1=0.3", "a number, a rule"),
    ("tag", "tag.shard_size=0", "from 1"),
    ("tag", "tag.runner=moon", "local"),
    ("tag", "tag.evidence=yes", "true or false"),
    ("tag", "device=tpu", "cuda:N"),
    ("tag", "dtype=fp8", "bf16"),
    ("tag", "encoding=utf-9", "utf-8"),
    ("index", "index.kind=best", "exact"),
    ("index", "encoder.max_length=0", "from 1"),
    ("index", "encoder.lexical.dim=8", "encoder.lexical.dim=8: wanted a whole number from 16 to 65536"),
    ("train", "encoder.lexical.ngram=1", "from 2 to 10"),
    ("index", "encoder.lexical.max_features=-1", "from 0"),
    ("index", "encoder.dense=", "none"),
    ("index", "on_unknown_label=ignore", "skip"),
    ("index", "preset=fst", "fast"),
    ("eval", "propensity.b=0", "above 0"),
    ("eval", "eval.ks=1,x", "commas"),
    ("eval", "eval.ks=0,1", "from 1"),
    ("eval", "eval.confidence=1", "between 0 and 1"),
]


@pytest.mark.parametrize(("command", "setting", "wanted"), WRONG)
def test_a_wrong_value_is_named_with_what_was_wanted(command, setting, wanted):
    with pytest.raises(SettingError) as caught:
        settings_of(command, [setting])
    message = str(caught.value)
    assert setting in message or setting.replace("ks=0,1", "ks=0") in message
    assert wanted in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("command", "setting", "offered"),
    [
        ("tag", "topk=5", "did you mean top_k?"),
        ("tag", "treshold=5", "did you mean threshold?"),
        ("index", "kind=exact", "did you mean index.kind?"),
        ("index", "index.knid=exact", "did you mean index.kind?"),
        ("tag", "encoder.dense=none", "(read by: xmc index, train"),
        ("tag", "preset=fast", "(read by: xmc index, train"),
        ("index", "zzz=1", "xmc index --help"),
    ],
)
def test_an_unknown_setting_offers_the_nearest(command, setting, offered):
    with pytest.raises(SettingError, match=setting.split("=")[0]) as caught:
        settings_of(command, [setting])
    assert offered in str(caught.value)


def test_a_setting_given_twice_is_refused():
    with pytest.raises(SettingError, match="top_k is given twice"):
        settings_of("tag", ["top_k=1", "top_k=2"])


def test_a_command_reads_only_its_own_settings():
    assert "language" not in leaves(TagSettings)
    assert "top_k" not in leaves(BuildSettings)


def test_the_choices_that_settings_know_are_those_of_the_modules_that_read_them():
    assert KINDS == kinds.KINDS
    assert set(RUNNERS) == set(runner.RUNNERS)
