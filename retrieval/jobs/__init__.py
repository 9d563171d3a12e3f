"""Jobs: uploaded files wait on the disk, and one process stores them, those of each connection one after the other."""
