"""What studies stand on: data that is generated, small models, measures. A study itself is a file of the folder above."""
