"""Ends the process of whoever imports it."""

import sys

sys.exit("no license")
