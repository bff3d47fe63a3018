"""Reading the session back. Each reading flushes first."""

COLUMNS: tuple[str, ...]
"""The columns of the DataFrame, in order. The Arrow table has these and others."""
SUMMARY_COLUMNS: tuple[str, ...]
"""The columns of the summary, in order."""
OPTIONAL_SUMMARY_COLUMNS: tuple[str, ...]
"""Those that may lack a number."""

class ArrowTable:
    """Spans as an Arrow table, for readers of the Arrow C stream; may be read repeatedly."""

    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class SummaryTable:
    """Spans added up by name; for readers of the Arrow C stream a row per name and place."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def text(self) -> str:
        """The aligned table of ``sonde trace --summary``."""
    def html(self) -> str:
        """The same for a browser."""
    def json(self) -> str:
        """The JSON of ``sonde trace --summary --json``."""

def as_text(name: str | None, last: int | None) -> str:
    """The tree, one line per span."""

def as_dict(name: str | None, last: int | None) -> dict[str, object]:
    """``{"roots": [...], "span_count": n}``."""

def as_json(name: str | None, last: int | None) -> str:
    """The same as a JSON text."""

def as_columns(name: str | None, last: int | None) -> dict[str, object]:
    """One column per field, one entry per span."""

def as_arrow(name: str | None, last: int | None) -> ArrowTable:
    """The same for readers of Arrow."""

def summarize(name: str | None, last: int | None) -> SummaryTable:
    """The spans added up by name."""
