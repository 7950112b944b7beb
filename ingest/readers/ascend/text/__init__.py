"""Text exports of torch_npu and msprof: trace_view.json and the CSV and JSON files beside it."""
