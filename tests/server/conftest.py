"""Puts this folder on the path, for the builders of messages in `clients_sent.py`."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent))
