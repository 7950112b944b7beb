"""A night: what to run, judge and report is in one TOML file, what became of it below STORE/.nights."""
