"""FHIBE's narrow vision tasks: predictions of models, scored per subject and image."""
