"""FB15k, or with --small the families of datasets/families.py in its files."""

from recipes.recipe import Recipe
from recipes.small_graphs import families_as

RECIPE = Recipe("recipes.fb15k", families_as("FB15k"))

if __name__ == "__main__":
    RECIPE.main()
