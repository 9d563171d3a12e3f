"""The known providers, the connections that users name, and the collector that queries them."""
