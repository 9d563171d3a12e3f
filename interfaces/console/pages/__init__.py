"""The pages of the console: each reads its query string, asks the service, and renders what that answers."""
