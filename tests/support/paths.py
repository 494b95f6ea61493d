"""The folder of the project. A path below it stands in the test that reads it: `--changed` looks for its names
there."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
