"""Settings: argument > environment > ~/.cirron/config.toml > default, resolved once."""

from pathlib import Path

import cirron as ci
import pytest

DEFAULTS = {
    "api_key": None,
    "api_endpoint": "https://api.cirron.com",
    "workspace_id": None,
    "output_dir": "./.cirron/",
    "snapshots": "stats",
    "sample_rate": 0.01,
    "flush_interval": 1.0,
    "spool_max_bytes": 1_000_000_000,
    "ingest_path": "/api/traces",
    "load_warn_bytes": 1_000_000_000,
    "load_max_bytes": 10_000_000_000,
    "output": None,
    "trace_buffer_max_spans": None,
}

# field, text in the environment, what it becomes, same in TOML
LAYERED = [
    ("api_key", "k", "k", '"k"'),
    ("api_endpoint", "http://e", "http://e", '"http://e"'),
    ("workspace_id", "w", "w", '"w"'),
    ("output_dir", "/o", "/o", '"/o"'),
    ("snapshots", "full", "full", '"full"'),
    ("snapshots", "off", "off", '"off"'),
    ("sample_rate", "0.5", 0.5, "0.5"),
    ("flush_interval", "2", 2.0, "2"),
    ("spool_max_bytes", "123", 123, "123"),
    ("ingest_path", "/i", "/i", '"/i"'),
    ("load_warn_bytes", "7", 7, "7"),
    ("load_max_bytes", "8", 8, "8"),
]

# An invalid value is ignored, and the next layer counts.
UNFIT = [
    ("api_key", "", '""'),
    ("snapshots", "bogus", '"bogus"'),
    ("snapshots", "STATS", "1"),
    ("sample_rate", "much", "true"),
    ("sample_rate", "", "[0.5]"),
    ("sample_rate", "2", "-1"),
    ("sample_rate", "nan", "inf"),
    ("flush_interval", "1s", "false"),
    ("flush_interval", "0", "-1.0"),
    ("flush_interval", "nan", "-inf"),
    ("spool_max_bytes", "1e9", "1.5"),
    ("spool_max_bytes", "", "true"),
    ("output_dir", "", "3"),
]


def write_home_file(text):
    directory = Path.home() / ".cirron"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(text)


def test_defaults():
    assert vars(ci.Cirron()) == DEFAULTS


@pytest.mark.parametrize(("field", "text", "value", "_toml"), LAYERED)
def test_environment_wins_over_default(monkeypatch, field, text, value, _toml):
    monkeypatch.setenv(f"CIRRON_{field.upper()}", text)
    assert vars(ci.Cirron()) == DEFAULTS | {field: value}


@pytest.mark.parametrize(("field", "_text", "value", "toml"), LAYERED)
def test_home_file_wins_over_default(field, _text, value, toml):
    write_home_file(f"[default]\n{field} = {toml}\n")
    assert vars(ci.Cirron()) == DEFAULTS | {field: value}


def test_environment_wins_over_home_file_and_argument_over_both(monkeypatch):
    write_home_file('[default]\nsample_rate = 0.1\napi_key = "file"\nworkspace_id = "file"\n')
    monkeypatch.setenv("CIRRON_SAMPLE_RATE", "0.2")
    monkeypatch.setenv("CIRRON_API_KEY", "environment")
    instance = ci.Cirron(sample_rate=0.3, api_key=None)
    assert instance.sample_rate == 0.3
    assert instance.api_key == "environment"
    assert instance.workspace_id == "file"


@pytest.mark.parametrize(("field", "text", "_toml"), UNFIT)
def test_environment_that_does_not_fit_is_passed_over(monkeypatch, field, text, _toml):
    monkeypatch.setenv(f"CIRRON_{field.upper()}", text)
    assert vars(ci.Cirron()) == DEFAULTS


@pytest.mark.parametrize(("field", "_text", "toml"), UNFIT)
def test_home_file_value_that_does_not_fit_is_passed_over(field, _text, toml):
    write_home_file(f"[default]\n{field} = {toml}\nworkspace_id = 'kept'\n")
    assert vars(ci.Cirron()) == DEFAULTS | {"workspace_id": "kept"}


def test_unfit_environment_leaves_the_home_file_in_force(monkeypatch):
    write_home_file("[default]\nsample_rate = 0.25\n")
    monkeypatch.setenv("CIRRON_SAMPLE_RATE", "lots")
    assert ci.Cirron().sample_rate == 0.25


@pytest.mark.parametrize(
    "text", ["", "not toml [", "default = 3", "[other]\nsample_rate = 0.5", "\udcff"]
)
def test_home_file_that_says_nothing(text):
    directory = Path.home() / ".cirron"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert vars(ci.Cirron()) == DEFAULTS


def test_home_file_that_cannot_be_read():
    (Path.home() / ".cirron" / "config.toml").mkdir(parents=True)
    assert vars(ci.Cirron()) == DEFAULTS


def test_only_arguments_set_output_and_trace_buffer(monkeypatch):
    write_home_file('[default]\noutput = "none"\ntrace_buffer_max_spans = 5\n')
    monkeypatch.setenv("CIRRON_OUTPUT", "none")
    monkeypatch.setenv("CIRRON_TRACE_BUFFER_MAX_SPANS", "5")
    assert vars(ci.Cirron()) == DEFAULTS
    instance = ci.Cirron(output=["log"], trace_buffer_max_spans=5)
    assert (instance.output, instance.trace_buffer_max_spans) == (["log"], 5)


def test_constructor_judges_nothing():
    instance = ci.Cirron(snapshots="bogus", sample_rate=9)
    assert (instance.snapshots, instance.sample_rate) == ("bogus", 9)
    with pytest.raises(ValueError, match="snapshots"):
        instance.profile()


def test_all_settings_may_be_given_by_position():
    values = [f"v{number}" for number in range(len(DEFAULTS))]
    assert list(vars(ci.Cirron(*values)).values()) == values


def test_default_instance_reads_its_settings_once(monkeypatch):
    monkeypatch.setenv("CIRRON_SAMPLE_RATE", "0.5")
    assert ci.get_default().sample_rate == 0.5
    monkeypatch.setenv("CIRRON_SAMPLE_RATE", "0.6")
    assert ci.get_default().sample_rate == 0.5
    assert ci.Cirron().sample_rate == 0.6


def test_repr_does_not_give_the_key_away():
    assert "hunter2" not in repr(ci.Cirron(api_key="hunter2"))


@pytest.mark.parametrize("layer", ["argument", "environment", "file"])
def test_output_dir_of_the_instance_is_where_the_spool_goes(tmp_path, monkeypatch, layer):
    target = tmp_path / "target"
    if layer == "environment":
        monkeypatch.setenv("CIRRON_OUTPUT_DIR", str(target))
    elif layer == "file":
        write_home_file(f'[default]\noutput_dir = "{target}"\n')
    instance = ci.Cirron(output_dir=str(target)) if layer == "argument" else ci.Cirron()
    with instance.profile().cirron.scope("x"):
        pass
    ci.shutdown()
    assert list((target / "spool").glob("*.json"))
