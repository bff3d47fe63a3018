"""ci.health(): its keys and values, with and without a session."""

import cirron as ci
from sonde import hooks

HEALTH_KEYS = [
    "enabled",
    "scope_drop_count",
    "mark_drop_count",
    "spool_drop_count",
    "spool_dir",
    "spool_bytes",
    "flush_mode",
    "flush_restart_count",
    "transport",
    "installed_hooks",
    "platform_context",
    "swallowed_error_count",
    "swallowed_errors",
]
IDLE = dict(
    zip(HEALTH_KEYS, [False, 0, 0, 0, None, 0, "stopped", 0, None, [], {}, 0, {}], strict=True)
)


def documented(health):
    assert list(health)[: len(HEALTH_KEYS)] == HEALTH_KEYS
    return {key: health[key] for key in HEALTH_KEYS}


def test_health_of_a_session(session, spool_dir):
    with ci.scope("x"):
        pass
    ci.flush()
    size = sum(file.stat().st_size for file in spool_dir.glob("*.json"))
    assert size > 0
    assert documented(ci.health()) == {
        "enabled": True,
        "scope_drop_count": 0,
        "mark_drop_count": 0,
        "spool_drop_count": 0,
        "spool_dir": str(spool_dir),
        "spool_bytes": size,
        "flush_mode": "normal",
        "flush_restart_count": 0,
        "transport": "FileOnlyTransport",
        "installed_hooks": hooks.detect(),
        "platform_context": {},
        "swallowed_error_count": 0,
        "swallowed_errors": {},
    }
    assert session.health() == ci.health()


def test_health_without_a_session():
    assert documented(ci.health()) == IDLE


def test_health_when_disabled():
    handle = ci.profile(enabled=False)
    assert documented(ci.health()) == IDLE
    assert documented(handle.health()) == IDLE


def test_health_after_shutdown(session):
    ci.shutdown()
    assert documented(ci.health()) == IDLE


def test_health_of_a_session_in_memory(memory):
    health = ci.health()
    assert (health["enabled"], health["spool_dir"], health["spool_bytes"]) == (True, None, 0)


def test_health_values_are_plain(session):
    assert all(
        isinstance(value, bool | int | str | list | dict | None) for value in ci.health().values()
    )
