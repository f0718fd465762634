"""Lets a failed assertion of a helper say what was compared, as one of a test does."""

import pytest

pytest.register_assert_rewrite("pipeline_comparison", "averaging_reference")
