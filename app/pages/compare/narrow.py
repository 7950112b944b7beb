"""Only some ranks or steps of the runs that are compared, written as `npulens compare` takes them."""

from __future__ import annotations

import streamlit as st

from npulens.app.context import Context
from npulens.app.text import wording
from npulens.app.text.number_lists import NoNumbers, numbers

Numbers = tuple[int, ...] | None
#: What of the address changes places when the sides do.
SIDES = (("base_ranks", "head_ranks"), ("base_steps", "head_steps"))
KEYS = tuple(key for keys in SIDES for key in keys)
_MOST = 10_000  # numbers in one list
_LONGEST = 400  # letters of one


def show(ctx: Context) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]] | None:
    """Ranks and steps of base and of head, None for all of them; None while one of the lists cannot be read."""
    with st.expander(ctx.say("compare.narrow"), expanded=any(key in st.query_params for key in KEYS)):
        st.caption(ctx.say("compare.narrow_help"))
        places, found, whole = st.columns(2), dict[str, Numbers](), True
        for keys in SIDES:
            for place, key in zip(places, keys, strict=True):
                with place:
                    numbers = _numbers(ctx, key)
                if isinstance(numbers, NoNumbers):
                    whole = False
                else:
                    found[key] = numbers
    if not whole:
        return None
    ranks, steps = ([found[key] for key in keys] for keys in SIDES)
    return (ranks[0], steps[0]), (ranks[1], steps[1])


def _numbers(ctx: Context, key: str) -> Numbers | NoNumbers:
    turn = st.session_state.get("compare_turn", 0)
    text = st.text_input(
        ctx.say(f"compare.{key}"), value=st.query_params.get(key, "")[:_LONGEST], max_chars=_LONGEST,
        key=f"compare_{key}_{turn}_{ctx.lang}", placeholder=ctx.say("compare.narrow_all"),
    ).strip()  # fmt: skip
    if not text:
        st.query_params.pop(key, None)
        return None
    st.query_params[key] = text
    try:
        return numbers(text, _MOST)
    except NoNumbers as error:
        st.text(ctx.say("compare.no_numbers", {"text": wording.plain(text)}))
        return error
