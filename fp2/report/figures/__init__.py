"""What figures that are drawn by hand share."""
