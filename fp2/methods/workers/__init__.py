"""One model in several processes: on the devices of this machine, or as actors of Ray."""
