"""A board of passports: many parties state what they measured, and models are ranked without sharing an answer."""
