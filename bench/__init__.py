"""Speed: figures as ratios against a bare loop in the same run, never as a timed test."""
