"""Run one evaluation, or with -m a sweep: python launch.py [-m] [key=value ...]. Everything lives in fp2.app."""

import os
import sys
from pathlib import Path

os.environ.setdefault("FP2_ROOT", str(Path(__file__).resolve().parent))

from fp2.app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
