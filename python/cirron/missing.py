"""Names of the Cirron SDK that this package does not have, and what to do instead."""

from __future__ import annotations

YAML = (
    "settings are arguments of profile() and Cirron(), CIRRON_* variables or "
    "~/.cirron/config.toml; a cirron.yaml is not read"
)

# name -> what to do, as the end of a sentence
NAMES = {
    "CirronYaml": YAML,
    "ProfilingConfig": YAML,
    "ServingConfig": "use the Cirron SDK itself for serving",
    "deps": "ask importlib.metadata.version(name) for the version of a package",
    "env": "read os.environ",
    "find_cirron_yaml": YAML,
    "inference": "put `with ci.scope('request'):` around the call",
    "load": "read the data with pandas, datasets or whatever you use",
    "load_cirron_yaml": YAML,
    "map": "call the function on your own batches",
    "secret": "read os.environ, or the file that holds the secret",
}
# Names that are methods of a Cirron instance in the SDK.
METHODS = ("deps", "env", "inference", "load", "secret")


def explain(owner: str, name: str) -> str:
    """The text of the AttributeError."""
    return (
        f"{owner} has no {name!r}: it is part of the Cirron SDK (the package cirron-sdk), not of "
        f"Sonde, which has only the profiling part of that API; instead, {NAMES[name]}"
    )


def is_import() -> bool:
    """Whether the module is asked by ``from cirron import name`` in the program."""
    import sys
    from dis import opmap

    frame = sys._getframe(2)  # the caller of the module's __getattr__
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
