"""The loop closed on real jobs: recorded, judged, fixed, measured again."""
