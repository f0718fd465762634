"""Lets failed assertions in helpers show what was compared, like those in tests."""

import pytest

pytest.register_assert_rewrite("pipeline_comparison", "averaging_reference")
