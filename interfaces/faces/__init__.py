"""The faces of the service: routes that speak the protocols of other products, for the clients that those have."""
