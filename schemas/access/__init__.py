"""Who may do what: callers, their keys and scopes, whose things are, and what each route and tool asks for."""
