"""Text and database of one rank, made one.

Both exports of torch_npu describe the same session, and neither holds everything. The text has the profiler's own lanes
and statistics, the database the call chains and exact ends. The first draft given is kept. The other fills what it
lacks: whole tables, whole kinds of spans, rows and single values. Where both speak and differ, the difference is
counted and said.
"""

from __future__ import annotations

from npulens.ingest.messages import Message
from npulens.ingest.tables import schema
from npulens.ingest.tables.draft import Cover, Draft, copy, union

#: Ids of spans and tracks taken from the other draft start here, far above what any reader gives.
SPAN_OFFSET, TRACK_OFFSET = 1 << 42, 1 << 21
#: Side tables with one row per span.
_PER_SPAN = ("kernel", "transfer", "comm", "host_op", "stack", "arg")
_IDS = ("span_id", "rank", "op_span_id")


def fill(drafts: list[Draft]) -> Draft:
    """One draft out of one or two; the first has the first word."""
    kept, *others = drafts
    for other in others:
        _Fill(kept, other).run()
    return kept


class _Fill:
    def __init__(self, kept: Draft, other: Draft) -> None:
        self.kept, self.other, self.con = kept, other, kept.con
        self.columns: dict[str, list[str]] = {}

    def run(self) -> None:
        for table, selects in self.other.selects.items():
            self._bring(table, union(selects))
        for key, value in self.other.facts.items():
            self.kept.fact(key, value)
        for reason in self.other.broken:
            self.kept.partial(None, reason)
        if "span" in self.other.selects and "span" in self.kept.selects:
            self._match()
        for table in schema.tables():
            if table in self.other.selects:
                self._table(table)

    def _bring(self, table: str, select: str) -> None:
        """Make a contract table of the other draft visible beside ours, under other_<table>."""
        path = self.kept.dir / f"other_{table}.spool.parquet"
        self.other.con.execute(copy(select, path))
        self.kept.show(f"other_{table}", [path])
        self.columns[table] = [row[0] for row in self.con.execute(f"DESCRIBE other_{table}").fetchall()]

    def _match(self) -> None:
        """Spans of both that are the same one: same start, same name; the longest pairs with the longest."""
        ranked = (
            "SELECT span_id, kind, name, ts_ns, row_number() OVER "
            "(PARTITION BY name, ts_ns ORDER BY dur_ns DESC, kind, span_id) AS nth FROM ({})"
        )
        ours = union(self.kept.selects["span"])
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE twin AS SELECT a.span_id AS span_id, b.span_id AS other_id, a.kind AS kind, "
            f"b.kind AS other_kind FROM ({ranked.format(ours)}) a JOIN ({ranked.format('FROM other_span')}) b "
            "USING (name, ts_ns, nth)"
        )
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE taken AS SELECT span_id FROM other_span WHERE kind NOT IN "
            f"(SELECT DISTINCT kind FROM ({ours})) AND span_id NOT IN (SELECT other_id FROM twin)"
        )

    def _has_rows(self, table: str) -> bool:
        selects = self.kept.selects.get(table)
        return bool(selects) and bool(self.con.execute(f"SELECT 1 FROM ({union(selects or [])}) LIMIT 1").fetchall())

    def _table(self, table: str) -> None:
        had = self._has_rows(table)
        both = "span" in self.kept.selects
        if not both or (not had and table not in (*_PER_SPAN, "pmu", "link", "span", "track", "l2_cache")):
            self._take(table, self._plain(table))
        elif table == "span":
            self._spans()
        elif table == "track":
            self._take(table, f"SELECT * REPLACE (track + {TRACK_OFFSET} AS track) FROM other_track WHERE track IN "
                       "(SELECT track FROM other_span JOIN taken USING (span_id))")  # fmt: skip
        elif table == "link":
            self._links(had)
        elif table in _PER_SPAN:
            self._per_span(table, had)
        elif table in ("pmu", "l2_cache"):
            if not had:
                self._take(table, self._mapped(table))
        else:
            self._compare_counts(table)

    def _plain(self, table: str) -> str:
        return f"FROM other_{table}"

    def _take(self, table: str, select: str) -> None:
        """Rows of the other draft become ours; if we had none, so does what it says of the table."""
        if table not in self.kept.selects:
            self.kept.covers[table] = self.other.covers[table]
        elif not self._has_rows(table):
            mine, theirs = self.kept.covers[table], self.other.covers[table]
            self.kept.covers[table] = Cover(
                mine.dropped + theirs.dropped,
                None,
                None,
                [*mine.partial, *theirs.partial],
                theirs.notes,
                theirs.expected,
            )
        self.kept.provide(table, select)

    def _spans(self) -> None:
        con = self.con
        ours = union(self.kept.selects["span"])
        for label, source, id_, twin, kinds in (
            (
                Message("database"),
                f"({ours})",
                "span_id",
                "SELECT span_id FROM twin",
                "SELECT DISTINCT kind FROM other_span",
            ),
            (
                Message("text"),
                "other_span",
                "span_id",
                "SELECT other_id FROM twin",
                f"SELECT DISTINCT kind FROM ({ours})",
            ),
        ):
            alone = con.execute(
                f"SELECT kind, count(*) FROM {source} WHERE kind IN ({kinds}) AND {id_} NOT IN ({twin}) "
                "GROUP BY kind ORDER BY kind"
            ).fetchall()
            if alone:
                listed = ", ".join(f"{count} {kind}" for kind, count in alone)
                self.kept.note("span", Message("spans_only_has", {"which": label, "listed": listed}))
        differ = con.execute("SELECT count(*) FROM twin WHERE kind <> other_kind").fetchall()[0][0]
        if differ:
            self.kept.note("span", Message("spans_are_another_kind_in", {"n": differ}))
        self.kept.provide(
            "span",
            f"SELECT span_id + {SPAN_OFFSET} AS span_id, track + {TRACK_OFFSET} AS track, kind, name, ts_ns, dur_ns "
            "FROM other_span JOIN taken USING (span_id)",
        )

    def _mapping(self) -> str:
        """Other span id -> id in our draft, for twins and for spans taken over."""
        return f"(SELECT other_id, span_id FROM twin UNION ALL SELECT span_id, span_id + {SPAN_OFFSET} FROM taken)"

    def _mapped(self, table: str) -> str:
        """Rows of a span-keyed table of the other draft under our ids."""
        ids = "m.span_id AS span_id"
        if "op_span_id" in self.columns[table]:
            return (
                f"SELECT o.* REPLACE ({ids}, p.span_id AS op_span_id) FROM other_{table} o JOIN {self._mapping()} m "
                f"ON m.other_id = o.span_id LEFT JOIN {self._mapping()} p ON p.other_id = o.op_span_id"
            )
        join = "LEFT JOIN" if table == "l2_cache" else "JOIN"  # a rate whose kernel nobody found is still a rate
        return f"SELECT o.* REPLACE ({ids}) FROM other_{table} o {join} {self._mapping()} m ON m.other_id = o.span_id"

    def _links(self, had: bool) -> None:
        routes = f"(SELECT DISTINCT route FROM ({union(self.kept.selects['link'])}))" if had else "('')"
        replaced = "a.span_id AS src_span_id, b.span_id AS dst_span_id"
        self._take(
            "link",
            f"SELECT l.* REPLACE ({replaced}) FROM other_link l JOIN {self._mapping()} a ON a.other_id = l.src_span_id "
            f"JOIN {self._mapping()} b ON b.other_id = l.dst_span_id WHERE "
            + ("false" if had else f"l.route NOT IN {routes}"),
        )

    def _per_span(self, table: str, had: bool) -> None:
        if not had:
            self._take(table, self._mapped(table))
            return
        ours, theirs = union(self.kept.selects[table]), self._mapped(table)
        mine = [row[0] for row in self.con.execute(f"DESCRIBE {ours}").fetchall()]
        shared = [c for c in mine if c in self.columns[table] and c not in _IDS]
        fresh = [c for c in self.columns[table] if c not in mine and c not in _IDS]
        self._count_differences(table, ours, theirs, shared)
        types = {column.name: column.type for column in schema.tables()[table].columns}
        columns = [
            f"coalesce(CAST(a.{c} AS {types[c]}), CAST(b.{c} AS {types[c]})) AS {c}" if c in shared else f"a.{c}"
            for c in mine
        ]
        columns += [f"b.{c}" for c in fresh]
        self.kept.selects[table] = [
            f"SELECT {', '.join(columns)} FROM ({ours}) a LEFT JOIN ({theirs}) b USING (span_id)",
            f"SELECT * FROM ({theirs}) WHERE span_id NOT IN (SELECT span_id FROM ({ours}))",
        ]

    def _count_differences(self, table: str, ours: str, theirs: str, columns: list[str]) -> None:
        if not columns:
            return
        types = {column.name: column.type for column in schema.tables()[table].columns}
        counts = ", ".join(f"count(*) FILTER (CAST(a.{c} AS {types[c]}) <> CAST(b.{c} AS {types[c]}))" for c in columns)
        found = self.con.execute(f"SELECT {counts} FROM ({ours}) a JOIN ({theirs}) b USING (span_id)").fetchall()[0]
        differ = [f"{count} of {name}" for name, count in zip(columns, found, strict=True) if count]
        if differ:
            self.kept.note(table, Message("text_and_database_differ_in", {"listed": ", ".join(differ)}))

    def _compare_counts(self, table: str) -> None:
        mine = self.con.execute(f"SELECT count(*) FROM ({union(self.kept.selects[table])})").fetchall()[0][0]
        theirs = self.con.execute(f"SELECT count(*) FROM other_{table}").fetchall()[0][0]
        if mine != theirs:
            self.kept.note(table, Message("database_has_rows_text_database", {"mine": mine, "theirs": theirs}))
