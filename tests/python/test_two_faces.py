"""Two APIs in one process: one session, one tree, and a handle for each."""

import json

import pytest
from other_face import run

# How a program starts each API, and the class of what it gets.
START = {"cirron": "cirron.profile({})", "other": "init({})"}
KIND = {"cirron": "cirron.Profiler", "other": "Handle"}
ORDERS = [("cirron", "other"), ("other", "cirron")]


def start(name, arguments="output='none'"):
    return START[name].format(arguments)


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_the_second_api_joins_with_a_handle_of_its_own(tmp_path, first, second):
    said = run(
        f"""
        import cirron
        one, two = {start(first)}, {start(second)}
        assert type(one) is {KIND[first]}
        assert type(two) is {KIND[second]}
        assert one.enabled and two.enabled
        assert (two if {second!r} == "cirron" else one).cirron is cirron.get_default()
        assert two.state().hooks == one.state().hooks
        with cirron.scope("work"):
            pass
        assert two.trace("dict", "work")["span_count"] == 1
        assert cirron.trace("dict")["roots"][0]["name"] == "{first}.session"
        assert two.health()["enabled"]
        assert {start(first)} is one
        assert {start(second)} is two
        """,
        cwd=tmp_path,
    )
    # Of starting a second API nothing is said; only of starting the same one twice.
    lines = said.stderr.splitlines()
    assert len(lines) == 2, said.stderr
    assert sorted(line.split()[0] for line in lines) == ["[cirron]", "[other]"]


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_the_session_ends_when_the_api_that_began_it_ends_it(tmp_path, first, second):
    run(
        f"""
        import cirron
        one, two = {start(first)}, {start(second)}
        two.shutdown()
        assert one.enabled and not two.enabled
        assert not two.health()["enabled"]
        with cirron.scope("alone"):
            pass
        assert one.trace("dict", "alone")["span_count"] == 1
        again = {start(second)}
        assert again is not two and again.enabled and not two.enabled
        one.shutdown()
        assert not one.enabled and not again.enabled
        assert session.current() is None
        other_way = {start(second)}
        assert cirron.trace("dict")["roots"][0]["name"] == "{second}.session"
        """,
        cwd=tmp_path,
    )


def test_shutdown_of_the_api_that_joined_leaves_the_session(tmp_path):
    run(
        """
        import cirron
        handle = init()
        cirron.shutdown()
        assert handle.enabled
        cirron.profile(config={"a": 1})
        assert cirron.config == {"a": 1}
        assert not hasattr(handle, "config")
        cirron.shutdown()
        assert cirron.config == {}
        assert handle.enabled
        with cirron.scope("late"):
            pass
        """,
        cwd=tmp_path,
    )
    batches = [json.loads(file.read_text()) for file in tmp_path.glob("logs/spool/*.json")]
    names = [span["name"] for batch in batches for span in batch["spans"]]
    assert sorted(names) == ["late", "other.session"]


@pytest.mark.parametrize(("off", "on"), ORDERS)
@pytest.mark.parametrize("off_first", [True, False])
def test_an_api_that_is_switched_off_switches_off_no_other(tmp_path, off, on, off_first):
    calls = [f"silent = {start(off, 'enabled=False')}", f"handle = {start(on)}"]
    said = run(
        "import cirron\n"
        + "\n".join(calls if off_first else reversed(calls))
        + f"""
assert type(silent) is {KIND[off]}
assert handle.enabled and not silent.enabled
with cirron.scope("work"):
    pass
assert handle.trace("dict", "work")["span_count"] == 1
if {off!r} == "cirron":
    assert not cirron.health()["enabled"]
handle.shutdown()
assert handle.trace("dict", "work")["span_count"] == 1
with cirron.scope("nobody asked"):
    pass
assert handle.trace("dict", "nobody asked")["span_count"] == 0
silent.shutdown()
with cirron.scope("open again"):
    pass
assert handle.trace("dict", "open again")["span_count"] == 1
""",
        cwd=tmp_path,
    )
    assert said.stderr == ""


def test_options_that_the_open_session_does_not_follow_are_named_once(tmp_path):
    said = run(
        """
        import cirron
        init()
        cirron.profile(path="elsewhere", snapshots="full", sample_rate=0.01)
        """,
        cwd=tmp_path,
    )
    (line,) = said.stderr.splitlines()
    assert line.startswith("[cirron] this call has joined the session that other began")
    assert f"writes to {tmp_path}/logs: snapshots, path" in line
    assert line.endswith("have no effect; start Cirron first, or give them to the other API")
    assert not (tmp_path / "elsewhere").exists()


def test_a_bad_option_of_the_second_api_raises_and_changes_nothing(tmp_path):
    run(
        """
        import cirron
        handle = init()
        try:
            cirron.profile(snapshots="bogus")
        except ValueError as error:
            assert "snapshots 'bogus'" in str(error)
        else:
            raise AssertionError("it was taken")
        assert cirron.config == {}
        assert session.handle_of(cirron.face.FACE) is None
        assert handle.enabled
        """,
        cwd=tmp_path,
    )


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_a_forked_child_begins_with_neither(tmp_path, first, second):
    run(
        f"""
        import os
        import cirron
        one, two = {start(first)}, {start(second)}
        if (child := os.fork()) == 0:
            fine = not one.enabled and not two.enabled
            own = {start(second)}
            os._exit(0 if fine and type(own) is {KIND[second]} and own.enabled else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert one.enabled and two.enabled
        """,
        cwd=tmp_path,
    )


def test_classes_that_frameworks_show_have_the_name_of_the_api(tmp_path):
    run(
        """
        import types, sys
        import cirron
        from sonde import face
        from sonde.hooks import lightning
        sys.modules["a_lightning"] = module = types.ModuleType("a_lightning")
        module.Callback = type("Base", (), {})
        one = lightning.make_callback("a_lightning")
        assert type(one).__name__ == "CirronCallback"
        face.use(Other())
        assert type(lightning.make_callback("a_lightning")).__name__ == "SondeCallback"
        face.use(cirron.face.FACE)
        assert type(lightning.make_callback("a_lightning")) is type(one)
        """,
        cwd=tmp_path,
    )


def test_no_package_of_ours_is_the_programs_place(tmp_path):
    run(
        """
        import cirron, cirron.instance
        from sonde import unseen
        assert not unseen._is_of_the_program(cirron.instance.__file__)
        assert not unseen._is_of_the_program(session.__file__)
        assert unseen._is_of_the_program("/data/train.py")
        """,
        cwd=tmp_path,
    )


# -- in whose words --------------------------------------------------------------------------------


def test_what_is_imported_later_does_not_speak_for_an_api(tmp_path):
    said = run(
        """
        import cirron
        session.introduce(Other())
        from sonde import face
        assert face.current().name == "cirron"
        try:
            cirron.wrap(int)
        except TypeError as error:
            assert str(error).startswith("ci.wrap()"), error
            assert "ci.wrap(int(...))" in str(error), error
        cirron.watch(None)
        init(output="none")
        try:
            cirron.wrap(3)
        except TypeError as error:
            assert str(error).startswith("ci.wrap()"), error
        cirron.watch(None)
        session.watch(Other(), None)
        """,
        cwd=tmp_path,
    )
    starts = [line.partition("(")[0] for line in said.stderr.splitlines()]
    assert starts == ["[cirron] ci.watch", "[cirron] ci.watch", "[other] other.see"]


@pytest.mark.parametrize(("first", "second"), ORDERS)
@pytest.mark.parametrize("summary", [False, True])
def test_what_a_table_needs_is_said_by_the_api_that_was_called(tmp_path, first, second, summary):
    run(
        f"""
        import cirron, sys
        handles = [{start(first)}, {start(second)}]
        sys.modules["pandas"] = None
        said = set()
        for trace in (cirron.trace, *(handle.trace for handle in handles)):
            try:
                trace(format="df", summary={summary})
            except Exception as error:
                said.add((trace.__module__.partition(".")[0], str(error).partition(" needs")[0]))
        assert said == {{("cirron", 'trace(format="df")'), ("__main__", "a table of spans")}}, said
        """,
        cwd=tmp_path,
    )


def test_joining_opens_no_transport_and_names_what_is_ignored(tmp_path):
    said = run(
        """
        import os
        os.environ["CIRRON_RUN_ID"] = "r1"
        import cirron
        one = init()
        two = cirron.profile()
        assert two.health()["transport"] == "nowhere"
        with cirron.scope("work"):
            pass
        """,
        cwd=tmp_path,
    )
    assert said.stdout == ""
    (line,) = said.stderr.splitlines()
    assert "EventStreamTransport has no effect" in line


def test_an_api_that_joins_has_the_ids_of_its_own_platform(tmp_path):
    run(
        """
        import os
        os.environ.update(CIRRON_WORKSPACE_ID="w1", OTHER_JOB="j1")
        import cirron
        one, two = init(), cirron.profile()
        assert one.state().platform == {"job": "j1"}
        assert two.platform_context == two.health()["platform_context"] == {"workspace_id": "w1"}
        """,
        cwd=tmp_path,
    )
    batches = [json.loads(file.read_text()) for file in tmp_path.glob("logs/spool/*.json")]
    (root,) = [span for batch in batches for span in batch["spans"] if span["parent_id"] is None]
    assert (root["attrs"]["other.job"], root["attrs"]["cirron.workspace_id"]) == ("j1", "w1")


@pytest.mark.parametrize("off_first", [True, False])
def test_an_api_that_is_switched_off_watches_no_model(tmp_path, off_first):
    off = "cirron.profile(enabled=False); cirron.watch(model)"
    calls = [off, 'handle = init("stats", frameworks=[])']
    run(
        "import cirron, torch\nmodel = torch.nn.Linear(2, 2)\n"
        + "\n".join(calls if off_first else reversed(calls))
        + """
with cirron.scope("epoch"):
    pass
handle.flush()
assert handle.health()["snapshot_count"] == 0
session.watch(Other(), model)
with cirron.scope("epoch"):
    pass
handle.flush()
assert handle.health()["snapshot_count"] > 0
""",
        cwd=tmp_path,
    )


def test_the_engine_speaks_for_the_api_that_python_speaks_for(tmp_path):
    said = run(
        """
        import cirron
        init(output="none").shutdown()
        silent = cirron.profile(enabled=False)
        silent.shutdown()
        for i in range(1_000_000):
            cirron.mark("m", i)
        cirron.trace()
        """,
        cwd=tmp_path,
    )
    line = said.stderr.splitlines()[0]
    assert "UserWarning: [cirron] mark buffer full" in line
    assert "call profile() first" in line


# -- ends that come from elsewhere -----------------------------------------------------------------


@pytest.mark.parametrize("order", ["one two", "two one", "stale one", "stale two one"])
def test_a_log_handler_ends_the_handles_in_any_order(tmp_path, order):
    calls = "; ".join(f"{name}.shutdown()" for name in order.split())
    run(
        f"""
        import logging, pathlib, threading, time
        import cirron
        stale = cirron.profile()
        stale.shutdown()
        one, two = init(flush_interval=0.05), cirron.profile()

        class Ends(logging.Handler):
            def emit(self, record):
                {calls}
                spoke.set()

        spoke = threading.Event()
        logging.getLogger("other").addHandler(Ends())
        logging.getLogger("cirron").addHandler(Ends())
        with cirron.scope("x"):
            pass
        for file in pathlib.Path("logs/live").glob("*.journal"):
            file.unlink()
        assert spoke.wait(30)
        until = time.monotonic() + 30
        while session.current() is not None and time.monotonic() < until:
            time.sleep(0.01)
        assert not one.enabled and not two.enabled
        assert cirron.health()["flush_mode"] == "stopped"
        """,
        cwd=tmp_path,
    )
    batches = [json.loads(file.read_text()) for file in tmp_path.glob("logs/spool/*.json")]
    names = sorted(span["name"] for batch in batches for span in batch["spans"])
    assert names == ["other.session", "x"]


# A framework whose hook is put in place, or taken away, at the moment when Ctrl-C comes.
INTERRUPTS = """
import sys, types

class Framework(types.ModuleType):
    when = ""
    def __getattr__(self, name):
        if self.when == "begin" and not name.startswith("__"):
            raise KeyboardInterrupt
        raise AttributeError(name)

framework = sys.modules["jax"] = Framework("jax")
"""


def test_ctrl_c_while_a_session_begins_leaves_nothing_of_it(tmp_path):
    run(
        INTERRUPTS
        + """
framework.when = "begin"
try:
    init(logs_dir="first", frameworks=["jax"])
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("the program did not get it")
framework.when = ""
assert session.current() is None and session.handle_of(Other()) is None
handle = init(logs_dir="second", frameworks=[])
import cirron
with cirron.scope("x"):
    pass
""",
        cwd=tmp_path,
    )
    assert not list(tmp_path.glob("*/live/*"))
    for folder, expected in [("first", ["other.session"]), ("second", ["other.session", "x"])]:
        files = tmp_path.glob(f"{folder}/spool/*.json")
        names = [span["name"] for file in files for span in json.loads(file.read_text())["spans"]]
        assert sorted(names) == expected
