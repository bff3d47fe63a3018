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
        assert two.installed_hooks == one.installed_hooks
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
        assert handle.config == {}
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
