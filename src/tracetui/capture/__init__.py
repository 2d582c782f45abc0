"""Run a workload under torch.profiler in a child process, the only place that imports torch."""
