"""A model of the catalog in a line, and what of it fits this machine."""

from __future__ import annotations

from typing import Any

import psutil


def model_line(row: dict[str, Any], precision: str = "int8") -> str:
    """Name, size, licence, whether it is here, and whether its weights fit into memory."""
    size = f"{row['bytes'] / 1e6:,.0f} MB" if row["bytes"] else "?"
    here = "ready " + ", ".join(row["ready"]) if row["ready"] else row["source"] or "to be downloaded"
    return f"{row['id']:<20} {size:>9}  {row['licence']:<13} {here}; {fits(row, precision)}"


def fits(row: dict[str, Any], precision: str) -> str:
    """In words, by this machine's whole memory."""
    needed = row.get("needs_bytes", {}).get(precision)
    if not needed:
        return "size unknown"
    whole = psutil.virtual_memory().total
    verdict = "fits" if needed < 0.7 * whole else "does not fit"
    return f"{verdict}: about {needed / 1e9:.1f} GB"
