"""What charts over time share: a part of the axis can be marked, and is then selected on every page."""

from __future__ import annotations

import plotly.graph_objects as go

from npulens.app.charts import style


def markable(picture: go.Figure) -> go.Figure:
    """Dragging marks a part of the axis of time."""
    picture.update_layout(
        dragmode="select", selectdirection="h", newselection={"line": {"color": style.QUIET_TEXT, "width": 1}},
        activeselection={"fillcolor": style.QUIET_TEXT, "opacity": 0.15},
    )  # fmt: skip
    return picture
