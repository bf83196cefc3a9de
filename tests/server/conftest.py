"""Puts this folder on the path, for the builders of messages in `clients_sent.py`."""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
