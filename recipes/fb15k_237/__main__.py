"""FB15k-237, or with --small the families of datasets/families.py in its files."""

from recipes.recipe import Recipe
from recipes.small_graphs import families_as

RECIPE = Recipe("recipes.fb15k_237", families_as("FB15k-237"), default="complex")

if __name__ == "__main__":
    RECIPE.main()
