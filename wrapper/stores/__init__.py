"""The parts of the facade that are about collections as such: names, copies, indexes, and who may reach them."""
