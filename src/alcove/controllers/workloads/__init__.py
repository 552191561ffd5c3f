"""What the controllers of workloads share: facts of pods, claiming by selector, making many at once."""
