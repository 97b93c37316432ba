"""Questions to hosted models as files for their batch APIs, and the results taken into the response store."""
