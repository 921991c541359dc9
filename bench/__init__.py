"""Speed: every figure beside the limit of the machine and beside other engines, in one run. Never a timed test."""
