"""Why a scanner lost an element of a trace, by its own word for it; English, then Chinese."""

from __future__ import annotations

TEXT: dict[str, tuple[str, str]] = {
    "lost_syntax": ("syntax", "语法错误"),
    "lost_bad_utf_8": ("bad utf-8", "UTF-8 编码错误"),
    "lost_control_character": ("control character", "含控制字符"),
    "lost_bad_escape": ("bad escape", "转义错误"),
    "lost_bad_number": ("bad number", "数值错误"),
    "lost_number_overflow": ("number overflow", "数值溢出"),
    "lost_too_deep": ("too deep", "嵌套过深"),
    "lost_too_large": ("too large", "过大"),
    "lost_not_an_object": ("not an object", "不是对象"),
    "lost_empty_element": ("empty element", "空元素"),
    "lost_missing_comma": ("missing comma", "缺少逗号"),
    "lost_wrong_type": ("wrong type: {column}", "类型错误：{column}"),
    "lost_out_of_range": ("out of range: {column}", "超出范围：{column}"),
    "lost_trailing_data": ("trailing data", "末尾有多余数据"),
    "lost_second_traceEvents": ("second traceEvents", "重复的 traceEvents"),
    "lost_bad_header_value": ("bad header value", "头部值错误"),
}  # fmt: skip
