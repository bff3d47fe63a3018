"""Measurements against budgets, as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Budget = Mapping[str, Mapping[str, float]]  # quantity -> {"at_most" or "at_least": limit}

COLUMNS = ("what", "ours", "baseline", "ratio", "budget", "reference SDK", "verdict")

# How a quantity with a budget is printed; {} is the number.
QUANTITIES = {
    "ratio": "{} x",
    "times_faster": "{} x faster",
    "megabytes": "{} MB",
    "milliseconds": "{} ms",
    "extra_milliseconds": "+{} ms",
    "spans_per_second": "{} spans/s",
    "megabytes_per_second": "{} MB/s",
    "dropped": "{} dropped",
    "percent": "{} %",
    "microseconds": "+{} us",
    "nanoseconds": "+{} ns",
    "speedup": "{} x one thread",
    "tensor_microseconds": "{} us a tensor",
}


@dataclass
class Measurement:
    """One line of the table: texts to show, and the numbers that budgets are about."""

    ours: str
    baseline: str = ""
    ratio: str = ""
    reference: str = ""
    quantities: dict[str, float] = field(default_factory=dict)


@dataclass
class Line:
    name: str
    what: str
    budget: Budget
    measured: Measurement | None
    problem: str = ""  # why there is no measurement

    def misses(self) -> list[str]:
        """Quantities that miss their budget, or were not measured."""
        found = {} if self.measured is None else self.measured.quantities
        return [q for q, limit in self.budget.items() if not keeps(found.get(q), limit)]

    def verdict(self) -> str:
        if self.measured is None:
            return "FAILED"
        missed = self.misses()
        if not missed:
            return "ok"
        found = self.measured.quantities
        return "MISSED: " + ", ".join(
            QUANTITIES[q].format(number(found[q])) if q in found else f"{q} not measured"
            for q in missed
        )

    def cells(self) -> tuple[str, ...]:
        shown = self.measured or Measurement(ours=self.problem)
        budget = ", ".join(describe(q, limit) for q, limit in self.budget.items())
        return (
            self.what,
            shown.ours,
            shown.baseline,
            shown.ratio,
            budget,
            shown.reference,
            self.verdict(),
        )

    def as_json(self) -> dict[str, object]:
        cells = dict(zip(COLUMNS, self.cells(), strict=True))
        quantities = {} if self.measured is None else self.measured.quantities
        return {"name": self.name, **cells, "quantities": quantities, "limits": self.budget}


def keeps(value: float | None, limit: Mapping[str, float]) -> bool:
    if value is None:
        return False
    return limit.get("at_least", value) <= value <= limit.get("at_most", value)


def describe(quantity: str, limit: Mapping[str, float]) -> str:
    sign, bound = ("<=", limit["at_most"]) if "at_most" in limit else (">=", limit["at_least"])
    return f"{sign} {QUANTITIES[quantity].format(number(bound))}"


def number(value: float) -> str:
    """With about three significant digits: 0.312, 14.7, 1.25 M."""
    if abs(value) >= 995_000:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 10_000:
        return f"{value / 1e3:.0f} k"
    if value == int(value):
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def time_text(nanoseconds: float) -> str:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(nanoseconds) >= size:
            return f"{number(nanoseconds / size)} {unit}"
    return f"{number(nanoseconds)} ns"


def megabytes_text(size: float) -> str:
    return f"{number(round(size / 1e6, 2))} MB"


def table(lines: Sequence[Line]) -> str:
    rows = [COLUMNS, *(line.cells() for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
