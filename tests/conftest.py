"""One thread for all tests: the models are tiny, and threads would only wait."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
