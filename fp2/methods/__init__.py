"""Method packages: plug-ins in every respect but distance, found by their entry points; the core imports none."""
