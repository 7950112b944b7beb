"""What the timeline shows, asked of the level-of-detail file (ingest/store/lod.py) and of the run's own tables."""
