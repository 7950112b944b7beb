"""Every kind of hostile file there is."""

from __future__ import annotations

from tests.hostile import archives, csv_files, databases, directories, encodings, kineto, side_files, trace_view

FAMILIES = {
    "kineto": kineto.KINDS,
    "trace_view": trace_view.KINDS,
    "csv": csv_files.KINDS,
    "side files": side_files.KINDS,
    "databases": databases.KINDS,
    "directories": directories.KINDS,
    "encodings": encodings.KINDS,
    "archives": archives.KINDS,
}
KINDS = tuple(kind for kinds in FAMILIES.values() for kind in kinds)
