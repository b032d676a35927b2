"""The page of the ledger is up to date, and each of the last findings has a cause."""

from __future__ import annotations

import json

from tests.differential.causes import CAUSES
from tests.differential.ledger import PAGE, RECORDS, page, recent_findings


def test_the_page_is_up_to_date_and_nothing_on_it_is_unexplained() -> None:
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    assert PAGE.read_text() == page(records), "run python -m tests.differential.ledger"
    assert set(recent_findings(records)) == set(CAUSES)
