"""Lets the tests use the scripts that they are about, which belong to no package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
