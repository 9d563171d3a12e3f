"""Jobs: uploaded files wait on the disk, and one process stores them one after the other."""
