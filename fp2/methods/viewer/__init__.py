"""The answers of runs beside their images, on this machine only."""
