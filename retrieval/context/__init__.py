"""The context tools: a search that always answers, by its fallback chain and circuit breaker."""
