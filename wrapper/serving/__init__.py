"""The service under gunicorn: workers, connections and memory."""
