"""The derived files of MindSpore's older profiler: which belong together, and what each becomes."""
