"""Whether this machine can run, record and measure: checks that say what was seen and what to do about it."""
