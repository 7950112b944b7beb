"""The shares of the window that traceinsight's tables give, as JSON. Runs in traceinsight's own environment."""

import json
import sys
import warnings

from hta.trace_analysis import TraceAnalysis

warnings.simplefilter("ignore")

files = {int(rank): path for rank, path in json.loads(sys.argv[1]).items()}
analysis = TraceAnalysis(trace_files=files)
shares = {}
split = analysis.get_temporal_breakdown(visualize=False)
kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False)
window = float((split["idle_time(us)"] + split["compute_time(us)"] + split["non_compute_time(us)"]).sum())
idle, _ = analysis.get_idle_time_breakdown(ranks=sorted(files), visualize=False)
# Its idle times are per stream: the busiest stream's is the one that comes nearest to the device's.
of_stream = idle.groupby(["rank", "stream"])["idle_time"].sum()
busiest = of_stream.groupby(level="rank").idxmin().tolist()
for name in ("host_wait", "kernel_wait"):
    rows = idle[(idle["idle_category"] == name) & idle.set_index(["rank", "stream"]).index.isin(busiest)]
    shares[name] = float(rows["idle_time"].sum()) / window
hidden = float(analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].fillna(0).mean()) / 100
for row in kinds.to_dict("records"):
    if row["kernel_type"] == "COMMUNICATION":
        shares["exposed_comm"] = float(row["sum"]) / window * (1 - hidden)
    if row["kernel_type"] == "MEMORY":
        shares["exposed_memory"] = float(row["sum"]) / window
print(json.dumps(shares))
