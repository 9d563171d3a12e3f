"""The console: pages for people, made of answers of the service's own routes."""
