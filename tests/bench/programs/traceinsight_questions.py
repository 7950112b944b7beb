"""Load a Kineto trace and ask the questions, with traceinsight. Runs in traceinsight's own environment."""

import sys
import warnings

from hta.trace_analysis import TraceAnalysis

warnings.simplefilter("ignore")

analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
print(analysis.get_temporal_breakdown(visualize=False).to_json())
print(analysis.get_comm_comp_overlap(visualize=False).to_json())
by_type, by_kernel = analysis.get_gpu_kernel_breakdown(visualize=False)
print(by_type.to_json(), len(by_kernel))
idle, _ = analysis.get_idle_time_breakdown(visualize=False)
print(idle.to_json())
print({rank: len(launches) for rank, launches in analysis.get_cuda_kernel_launch_stats(visualize=False).items()})
