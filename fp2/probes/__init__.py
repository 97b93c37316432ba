"""What is asked: batteries of questions, each one YAML file."""
