"""The example workload: a configuration becomes a random-weight LLM that runs under NVTX ranges."""
