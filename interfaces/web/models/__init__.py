"""What models do for those who name one: bring passages into an order, and give a collection other vectors."""
