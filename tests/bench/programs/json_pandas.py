"""The script anyone would write first: json, pandas, and the split by unions of intervals."""

import json
import sys

import numpy as np
import pandas as pd

with open(sys.argv[1], "rb") as file:
    document = json.load(file)
events = document if isinstance(document, list) else document["traceEvents"]
process = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
spans = [e for e in events if e["ph"] == "X"]
arguments = pd.DataFrame([e.get("args") or {} for e in spans])
frame = pd.concat([pd.DataFrame(spans).drop(columns="args"), arguments], axis=1)
frame = frame.loc[:, ~frame.columns.duplicated()]
frame["ts"], frame["dur"] = frame["ts"].astype(float), frame["dur"].astype(float)
names = frame["name"].astype(str)
if isinstance(document, list):
    place, task = frame["pid"].map(process).fillna(""), frame.get("Task Type", names).astype(str)
    device = place == "Ascend Hardware"
    copy = device & task.str.contains("MEMCPY|SDMA")
    computing = device & task.str.match("AI_|AIV|AIC|MIX_|DSA|FFTS|KERNEL_|MEMSET") & ~copy
    communication = place.isin(["HCCL", "Communication"]) & names.str.startswith("hcom_")
else:
    nccl = names.str.contains("nccl", case=False)
    computing = frame["cat"].isin(["kernel", "gpu_memset"]) & ~nccl
    communication = (frame["cat"] == "kernel") & nccl
    copy = frame["cat"] == "gpu_memcpy"


def union(rows: pd.Series) -> float:
    part = frame.loc[rows, ["ts", "dur"]].sort_values("ts")
    if part.empty:
        return 0.0
    start = part["ts"].to_numpy()
    reach = np.maximum.accumulate(start + part["dur"].to_numpy())
    return float(reach[0] - start[0] + np.maximum(0.0, reach[1:] - np.maximum(start[1:], reach[:-1])).sum())


wall = float((frame["ts"] + frame["dur"]).max() - frame["ts"].min())
busy = union(computing | communication | copy)
exposed = union(computing | communication) - union(computing)
print({
    "computing_us": union(computing), "communication_us": union(communication),
    "communication_not_overlapped_us": exposed, "copy_not_overlapped_us": busy - union(computing | communication),
    "idle_us": wall - busy,
})  # fmt: skip
