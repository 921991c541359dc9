"""What is measured, one workload per file."""
