"""What the hooks cost on a GPU machine, as a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
REFERENCE = {"mlp": "38 %", "transformer": "13 %"}


def measure(loop: str, rounds: int, device: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(BENCH / "hooks.py"), loop, str(rounds), device],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def loop_row(what: str, loop: str, rounds: int, host_us: float, limit: float) -> tuple[str, ...]:
    """Wall clock where it can tell, else the counted host time over the step's time."""
    found = measure(loop, rounds, "cuda")
    counted = host_us / found["bare_us"]
    tells = found["noise"] < limit
    kept = (found["overhead"] if tells else counted) <= limit
    return (
        what,
        f"{found['bare_us']:.1f} us",
        f"{found['hooked_us']:.1f} us",
        f"{100 * found['overhead']:.2f} % (noise {100 * found['noise']:.2f} %)",
        f"{100 * counted:.2f} %",
        f"<= {100 * limit:g} %",
        REFERENCE[loop],
        "ok" if kept else "MISSED",
    )


def host_row(what: str, found: dict[str, float], limit_ns: float | None) -> tuple[str, ...]:
    extra = found["extra_us"] * 1e3
    limit = f"<= {limit_ns:g} ns" if limit_ns else ""
    kept = limit_ns is None or extra <= limit_ns
    return what, "", f"+{extra:.0f} ns", "", "", limit, "", "ok" if kept else "MISSED"


def main() -> int:
    gpu = measure("nothing", 12, "cuda")
    lines = [
        ("what", "bare", "hooked", "overhead, clock", "counted", "budget", "reference SDK", ""),
        host_row("hooks of a step alone, with GPU events", gpu, None),
        host_row("hooks of a step alone, without", measure("nothing", 12, "cpu"), 4000),
        host_row("each further submodule of a forward", measure("submodules", 40, "cpu"), 25),
        loop_row("two-layer MLP, batch 8", "mlp", 60, gpu["extra_us"], 0.03),
        loop_row("8-layer 512-wide transformer", "transformer", 10, gpu["extra_us"], 0.003),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    return 1 if any(line[-1] == "MISSED" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
