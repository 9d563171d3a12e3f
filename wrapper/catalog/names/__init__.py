"""What collections are called: renames, aliases, and the names that the engine has for them."""
