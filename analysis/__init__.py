"""Tables to views to findings. `engine.check(con)` judges a run. Importing the package alone imports nothing heavy."""
