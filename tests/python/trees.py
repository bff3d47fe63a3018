"""The tree of the session as a line of text: `epoch[0](step[0](data_load forward))`."""

import cirron as ci


def sketch(root=None, name=None):
    """What lies below the session, in order of time; open spans end in `...`."""
    if root is None:
        (root,) = [r for r in ci.trace(format="dict")["roots"] if r["name"] == "cirron.session"]
    return " ".join(line(child) for child in root["children"])


def line(span):
    text = span["name"]
    if span["index"] is not None:
        text += f"[{span['index']}]"
    if span["attrs"].get("mode") == "eval":
        text += ":eval"
    if span["end_ns"] is None:
        text += "..."
    if (how := span["attrs"].get("sonde.closed_by")) is not None:
        text += f"!{how}"
    if span["children"]:
        text += f"({' '.join(line(child) for child in span['children'])})"
    return text


def spans(name):
    """All spans of the session with that name, in order of time."""
    found = []

    def visit(span):
        if span["name"] == name:
            found.append(span)
        for child in span["children"]:
            visit(child)

    for root in ci.trace(format="dict")["roots"]:
        visit(root)
    return found
