"""The example server: HTTP requests become tokens of a random-weight LLM, batched as they come."""
