"""``python -m npulens.collectors.jobs``: the jobs, and what can be planted into each."""

from __future__ import annotations

from npulens.collectors.jobs import job


def main() -> None:
    for name in job.names():
        print(name)
        for plant, about in job.plants(name).items():
            print(f"  --plant {plant}: {about.what}; the fix: {about.fix}")


if __name__ == "__main__":
    main()
