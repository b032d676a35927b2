"""Cases of special."""

from __future__ import annotations

from paddle_ipu.testing.operator_case import CaseTable

TABLE = CaseTable()
_add = TABLE.add
