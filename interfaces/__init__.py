"""The interfaces of the product: command line, HTTP, MCP, and the composition root behind them."""
