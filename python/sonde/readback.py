"""What ``trace`` returns: the spans of the session, out of the process that records them."""

from __future__ import annotations

import sys
from operator import index

from sonde import _core, face, facts, unseen
from sonde.errors import MissingPackageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Protocol

    from sonde.face import Face

    class PrettyPrinter(Protocol):
        """What IPython hands to ``_repr_pretty_``."""

        def text(self, text: str, /) -> None: ...


FORMATS = ("tree", "dict", "json", "df", "arrow")


class TraceText:
    """The tree as the value of a notebook cell: shown as plain text, without quotes."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        printer.text(self._text)


class SummaryText(TraceText):
    """The summary as the value of a notebook cell: shown as a table."""

    __slots__ = ("_html",)

    def __init__(self, text: str, html: str) -> None:
        super().__init__(text)
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


def trace(
    format: str,
    name: str | None,
    last: int | None,
    summary: bool = False,
    speaker: Face | None = None,
) -> Any:
    """Spans of the current session, closed and open, in one of ``FORMATS``.

    ``speaker`` is the face of the API that the program called.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str or None, not {type(name).__name__}")
    if last is not None:
        last = index(last)
    if format not in FORMATS:
        raise ValueError(f"format {format!r} is not valid; use one of {', '.join(FORMATS)}")
    unseen.note()
    facts.refresh()
    pandas = import_pandas(speaker) if format == "df" else None
    if summary:
        return trace_summary(format, name, last, pandas)
    if format == "tree":
        text = TraceText(_core.trace.as_text(name, last).removesuffix("\n"))
        if in_notebook():
            return text
        print(text)
        return None
    if format == "dict":
        return _core.trace.as_dict(name, last)
    if format == "json":
        return _core.trace.as_json(name, last)
    if format == "df":
        return data_frame(pandas, name, last)
    return _core.trace.as_arrow(name, last)


def trace_summary(format: str, name: str | None, last: int | None, pandas: Any) -> Any:
    """The spans added up by name, as ``sonde trace --summary`` does it."""
    from json import loads

    summary = _core.trace.summarize(name, last)
    if format == "tree":
        text = SummaryText(summary.text().removesuffix("\n"), summary.html())
        if in_notebook():
            return text
        print(text)
        return None
    if format == "arrow":
        return summary
    if format == "json":
        return summary.json()
    tree = loads(summary.json())
    if pandas is None:
        return tree
    columns = list(_core.trace.SUMMARY_COLUMNS)
    frame = pandas.DataFrame(list(summary_rows(tree)), columns=columns)
    # None becomes NaN, also in a column that holds nothing else, as in the columns of spans.
    return frame.astype(dict.fromkeys(_core.trace.OPTIONAL_SUMMARY_COLUMNS, "float64"))


def summary_rows(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per name and place, parents before their children."""

    def rows(nodes: list[Any], above: str, depth: int) -> Iterator[dict[str, Any]]:
        for node in nodes:
            path = f"{above}/{node['name']}" if above else node["name"]
            yield node | {"path": path, "depth": depth}
            yield from rows(node["children"], path, depth + 1)

    for rank in tree["ranks"]:
        for row in rows(rank["roots"], "", 0):
            yield row | {"rank": rank["rank"]}


def import_pandas(speaker: Face | None) -> Any:
    from importlib import import_module

    try:
        return import_module("pandas")
    except ImportError as error:
        purpose = (speaker or face.current()).call("table", "a table of spans")
        raise MissingPackageError("pandas", purpose) from error


def data_frame(pandas: Any, name: str | None, last: int | None) -> Any:
    """A pandas DataFrame, one row per span."""
    from importlib import import_module

    if int(pandas.__version__.partition(".")[0]) >= 3:
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            pass
        else:
            # Only the reader holds the spans, so they are freed as soon as the columns are made.
            return frame_from_arrow(
                arrow, arrow.RecordBatchReader.from_stream(_core.trace.as_arrow(name, last))
            )
    return pandas.DataFrame(_core.trace.as_columns(name, last))


def frame_from_arrow(arrow: Any, spans: Any) -> Any:
    """The same without a Python object per cell: since pandas 3 its text columns are Arrow's."""
    table = spans.read_all().select(list(_core.trace.COLUMNS))
    for place, field in enumerate(table.schema):
        kind = field.type
        if arrow.types.is_dictionary(kind):
            kind = arrow.string()
        elif arrow.types.is_int32(kind):
            kind = arrow.int64()
        if kind != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table.to_pandas()


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process (not a terminal IPython)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return any(base.__name__ == "ZMQInteractiveShell" for base in type(shell).__mro__)
