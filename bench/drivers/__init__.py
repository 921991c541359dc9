"""The engines that are measured, each behind the same surface (`bench.driver`)."""
