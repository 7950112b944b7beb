"""Jobs of the seeds: each file here runs by itself, and ``job.py`` says what they share."""
