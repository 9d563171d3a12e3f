"""What operators see of the service: its log, its metrics, and the requests of the last hour."""
