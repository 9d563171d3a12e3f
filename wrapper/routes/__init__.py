"""The routes of the storage proxy, a module for each kind of resource."""
