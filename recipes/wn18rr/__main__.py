"""wn18rr, or with --small the families of datasets/families.py in its files."""

from recipes.recipe import Recipe
from recipes.small_graphs import families_as

RECIPE = Recipe("recipes.wn18rr", families_as("wn18rr"), default="complex")

if __name__ == "__main__":
    RECIPE.main()
