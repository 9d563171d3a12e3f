"""Jobs: uploaded files wait on the disk, and one process stores them, so that none holds up the others."""
