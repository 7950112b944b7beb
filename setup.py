"""Which folder is which package: everything is installed below one name, npulens.

The folders stay at the top of the repository. `npulens.app` is app/, `npulens.ingest` is ingest/ and so on; what
`import npulens` itself gives lies in app/front/. The rest of the project's settings are in pyproject.toml.
"""

from setuptools import find_namespace_packages, setup

ROOMS = ("analysis", "app", "collectors", "ingest", "sample_traces")
FRONT = "app.front"

found = find_namespace_packages(include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")])
left_out = (FRONT, "__pycache__", "sample_traces.")  # the samples are data of one package
packages = [name for name in found if not any(part in name for part in left_out)]

setup(
    packages=["npulens", *(f"npulens.{name}" for name in packages)],
    package_dir={"npulens": FRONT.replace(".", "/"), **{f"npulens.{room}": room for room in ROOMS}},
)
