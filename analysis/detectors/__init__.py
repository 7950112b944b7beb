"""The detectors: one file each, found by its name. CONTRIBUTING.md says how to add one."""
