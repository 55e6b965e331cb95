"""Recipes that come with the package: a folder for each graph, a YAML file of flags for each model."""
