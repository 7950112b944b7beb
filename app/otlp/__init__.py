"""A run or a night as spans of OpenTelemetry, for the tools that hold those of everything else."""
