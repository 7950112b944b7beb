"""Tables to views to findings. `analysis.check(con)` judges a run; see analysis/engine.py."""

from npulens.analysis.engine import check as check
