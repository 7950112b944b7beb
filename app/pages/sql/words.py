"""One SELECT at a time."""

TEXT = {
    "title": ("SQL", "SQL"),
    "lead": (
        "One SELECT over the tables and views of this run. It runs in a process of its own with limits on time and "
        "memory, and cannot write anything.",
        "对这次采集的表和视图执行一条 SELECT。查询在独立进程中执行，有时间和内存限制，无法写入任何内容。",
    ),
    "empty": (
        "There is no run to ask yet. Load a capture first.",
        "还没有可查询的采集，请先加载采集数据。",
    ),
    "query": ("Query", "查询"),
    "query_help": (
        "DuckDB's SQL. Ctrl+Enter runs it. Times are whole nanoseconds from the start of the run.",
        "DuckDB SQL 语法。Ctrl+Enter 执行。时间为从采集起点起算的整数纳秒。",
    ),
    "run": ("Run", "执行"),
    "examples": ("Examples", "示例"),
    "example_longest": ("Longest kernels", "最长的算子"),
    "example_types": ("Time by kernel type", "按算子类型统计"),
    "example_split": ("Split of every step", "每个 step 的拆分"),
    "example_gaps": ("Longest gaps", "最长的空隙"),
    "example_collectives": ("Longest collectives", "最长的集合通信"),
    "example_host": ("Host calls", "主机调用"),
    "example_missing": ("What is missing", "缺少什么"),
    "limits": (
        "At most {rows} rows come back, the first {shown} are shown. A query may take {seconds} s of processor time.",
        "最多返回 {rows} 行，显示前 {shown} 行。每条查询最多使用 {seconds} 秒处理器时间。",
    ),
    "working": ("Running, {seconds} s so far.", "正在执行，已用 {seconds} 秒。"),
    "waiting": (
        "Other queries are running on this server. Waiting for a free place, {seconds} s so far.",
        "服务器正在执行其他查询，正在等待空位，已等 {seconds} 秒。",
    ),
    "took": ("{n} rows in {seconds} s.", "{n} 行，用时 {seconds} 秒。"),
    "took.one": ("1 row in {seconds} s.", "1 行，用时 {seconds} 秒。"),
    "cut": (
        "There are more rows than came back: only the first {n} are here. Add a LIMIT or count with GROUP BY.",
        "结果行数超出上限，这里只有前 {n} 行。请加 LIMIT，或用 GROUP BY 汇总。",
    ),
    "shown": (
        "The table shows the first {shown} of {n}; the downloads hold all {n}.",
        "表格显示 {n} 行中的前 {shown} 行，下载文件包含全部 {n} 行。",
    ),
    "shortened": (
        "{n} cells were longer than {most} letters and are cut.",
        "{n} 个单元格超过 {most} 个字符，已截断。",
    ),
    "shortened.one": (
        "1 cell was longer than {most} letters and is cut.",
        "1 个单元格超过 {most} 个字符，已截断。",
    ),
    "none": ("The query ran and found no row.", "查询已执行，没有符合条件的行。"),
    "answer": ("The rows of the answer", "查询结果"),
    "csv": ("Download CSV", "下载 CSV"),
    "csv_help": (
        "Cells that a spreadsheet would run as a formula begin with a quote.",
        "可能被电子表格当作公式执行的单元格前会加一个引号。",
    ),
    "json": ("Download JSON", "下载 JSON"),
    "row": (
        "Choose a row to find its moment on the timeline.",
        "选择一行，可在时间线上查看对应时刻。",
    ),
    "row_moment": (
        "Row {row}: rank {rank}, {length} from {start} on.",
        "第 {row} 行：rank {rank}，从 {start} 起 {length}。",
    ),
    "row_lost": ("Row {row} names no span of this run.", "第 {row} 行没有对应这次采集中的区间。"),
    "link_long": (
        "This query is too long for a link; the address of this page does not hold it.",
        "查询过长，无法放入链接，本页地址中不包含它。",
    ),
    "error_at": ("Line {line}, column {column}: {message}", "第 {line} 行第 {column} 列：{message}"),
    "error_not_a_select": (
        "This is not exactly one SELECT. Nothing else is run: no second statement, nothing that writes, attaches or "
        "sets.",
        "这不是恰好一条 SELECT。不执行其他任何语句：不能有第二条语句，不能写入、附加数据库或修改设置。",
    ),
    "error_too_slow": (
        "The query took too long and was stopped. Ask for less: a rank, a step, a LIMIT.",
        "查询用时过长，已停止。请缩小范围：指定 rank、step，或加 LIMIT。",
    ),
    "error_too_large": (
        "The query needed more memory than it may use and was stopped. Ask for less: fewer rows or shorter texts.",
        "查询所需内存超出限制，已停止。请缩小范围：减少行数或文本长度。",
    ),
    "error_crashed": (
        "The query's process ended without an answer. It probably needed more memory than it may use.",
        "查询进程没有返回结果就结束了，可能是内存超出限制。",
    ),
    "error_too_many_rows": (
        "The answer has too many rows and could not be cut. Add a LIMIT.",
        "结果行数过多且无法截断，请加 LIMIT。",
    ),
    "error_too_long": ("The query is too long.", "查询文本过长。"),
    "tables": ("Tables and views", "表与视图"),
    "tables_help": (
        "A table holds what was recorded; a view says what follows from it. NULL is not recorded, 0 is none.",
        "表保存采集到的内容，视图给出由此得到的测量。NULL 表示未采集，0 表示没有。",
    ),
    "search": ("Search names and meanings", "搜索名称与含义"),
    "everything": ("all of them", "全部"),
    "one_of": ("Table or view", "表或视图"),
    "col_name": ("Column", "列"),
    "col_table": ("Of", "所属"),
    "col_type": ("Type", "类型"),
    "col_means": ("Meaning", "含义"),
    "nothing_found": ("No table, view or column is called so.", "没有匹配的表、视图或列。"),
}
