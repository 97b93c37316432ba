"""Who is in the picture: FHIBE, the drawn people in its layout, any table of the user's own pictures."""
