"""An environment's own moves are those that the oracle expects, and any other state is none."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.invariants import holds
from fuzz.rules import leads_to
from fuzz.states import read_state
from fuzz.test_database_machine import NUMBERS, SETUP, STATEMENTS
from triocollect.servers.resources.blackjack import Blackjack, BlackjackSource
from triocollect.servers.resources.database import Database, execute, execute_script
from triocollect.servers.resources.sql import SqlSource


def state(of):
    return read_state(msgspec.json.encode(of))


def step(source, rules, before, tool, arguments):
    """The state after a move; each that changes something is one that the oracle expects."""
    after = rules.call(before, tool, arguments).state
    if after is not before:
        led = leads_to(source, state(before), tool, arguments, state(after))
        holds(13, led, f"{tool} {arguments.decode()} leads from {before} to {after}")
    return after


def test_every_card_is_the_one_that_the_seed_has_for_it():
    dice, rules = random.Random(1), BlackjackSource()
    outcomes = set()
    for seed in range(200):
        table = Blackjack(seed << 45)
        for _ in range(30):
            table = step("blackjack", rules, table, dice.choice(["deal", "hit", "stand"]), b"{}")
        outcomes.update(table.outcomes)
    assert outcomes == {"win", "push", "loss"}


DRAWING = st.builds("INSERT INTO t (word) VALUES (random() % {})".format, NUMBERS)


@given(seed=st.integers(0, 2**48 - 1), statements=st.lists(STATEMENTS | DRAWING, max_size=25))
@settings(max_examples=60, deadline=None)
def test_every_statement_does_what_it_does_with_python_s_own_sqlite(seed, statements):
    rules, database = SqlSource(), execute_script(Database(seed), "; ".join(SETUP) + ";")
    for sql in statements:
        database = step("sql", rules, database, "query", msgspec.json.encode({"sql": sql}))


@pytest.mark.parametrize("flaw", ["a row is lost", "the transaction is forgotten", "a number is drawn again"])
def test_a_database_that_went_on_otherwise_is_seen(flaw):
    before = execute_script(Database(7), "CREATE TABLE t (n); INSERT INTO t VALUES (1), (2);")
    before = execute(before, "BEGIN").database
    sql = "INSERT INTO t VALUES (random())"
    went_on_from = {
        "a row is lost": execute(before, "DELETE FROM t WHERE n = 2").database,
        "the transaction is forgotten": msgspec.structs.replace(before, marks=()),
        "a number is drawn again": execute(before, "SELECT random()").database,
    }[flaw]
    arguments = msgspec.json.encode({"sql": sql})
    after = execute(went_on_from, sql).database
    assert leads_to("sql", state(before), "query", arguments, state(execute(before, sql).database))
    assert not leads_to("sql", state(before), "query", arguments, state(after))
