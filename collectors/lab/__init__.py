"""The laboratory: a job's own module is captured with its batches, and rewrites are tried on it, numerics first."""
